import type { TSchema } from '@sinclair/typebox'
import type { ActionForm } from './frame/form.ts'
import { actions } from './registry.ts'

/** One field of a form, by the member of the body that it becomes. */
export interface FormField {
  readonly name: string
  readonly label: string
  readonly hint?: string
  readonly required: boolean
  readonly kind?: 'number' | 'choice'
  readonly pattern?: string
  readonly of?: readonly { readonly value: string; readonly label: string }[]
}

/** All that the console needs of an action: its page has no schemas and nothing of what runs in the gateway. */
export interface ConsoleForm extends Omit<ActionForm, 'labels'> {
  readonly action: string
  readonly method: 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  readonly path: string
  readonly fields: readonly FormField[]
  /** The members of its body; null: the route reads none. */
  readonly members: readonly string[] | null
}

/** `keep_seconds` → `Keep seconds`. */
const labelOf = (name: string) => `${name[0]?.toUpperCase()}${name.slice(1).replaceAll('_', ' ')}`

function fieldOf(name: string, schema: TSchema, label: string, required: boolean): FormField {
  const { type, anyOf, description, pattern } = schema
  const words: unknown[] = (anyOf as readonly TSchema[] | undefined)?.map((each) => each.const) ?? []
  const named = { name, label, required, ...(description === undefined ? {} : { hint: description }) }
  if (type === 'integer') return { ...named, kind: 'number' }
  if (words.length > 0 && words.every((word) => typeof word === 'string')) {
    return { ...named, kind: 'choice', of: words.map((word) => ({ value: word, label: word })) }
  }
  return { ...named, ...(pattern === undefined ? {} : { pattern }) }
}

/** Not typed into fields: what the policy asks for, and how the caller says which row it has seen. */
const asked = new Set(['reason', 'confirm', 'etag'])

/** By the name of the action. The console's bundle runs it and keeps what it returns. */
export function consoleForms(): Readonly<Record<string, ConsoleForm>> {
  const forms = actions.flatMap(({ action, method, path, body, form }): readonly ConsoleForm[] => {
    if (form === null || method === 'GET') return []
    const { labels, ...rest } = form
    const members = Object.entries(body?.properties ?? {}).filter(([name]) => !asked.has(name))
    const typed = members.filter(([name]) => labels === undefined || Object.hasOwn(labels, name))
    const fields = typed.map(([name, schema]) =>
      fieldOf(name, schema, labels?.[name] ?? labelOf(name), body?.required?.includes(name) ?? false),
    )
    return [{ ...rest, action, method, path, fields, members: body === null ? null : members.map(([name]) => name) }]
  })
  return Object.fromEntries(forms.map((form) => [form.action, form]))
}
