import { readFileSync } from 'node:fs'
import { join } from 'node:path'

/** The table of `docs/verify/mutations.json`, as one who verifies reads it. */

type Edit =
  | { readonly replace: string; readonly by: string }
  | { readonly at: readonly string[]; readonly set?: unknown }

export interface Known {
  readonly log_keys?: readonly string[]
  readonly node_keys?: readonly string[]
  readonly witnesses?: readonly string[]
  readonly least?: number
  readonly policy?: string
  readonly roots?: readonly string[]
  /** Remembered from before. */
  readonly keys?: readonly string[]
  readonly checkpoints?: Readonly<Record<string, unknown>>
}

export interface Mutation {
  readonly name: string
  readonly text: string
  readonly known: Known
  readonly valid: boolean
}

interface Table {
  readonly known: Readonly<Record<string, Known>>
  readonly bases: Readonly<Record<string, string>>
  readonly cases: readonly {
    readonly name: string
    readonly base: string
    readonly edits: readonly Edit[]
    readonly known: string
    readonly valid: boolean
  }[]
}

export const mutationsFile = join(import.meta.dir, '../../../docs/verify/mutations.json')

function edited(text: string, edit: Edit): string {
  if ('replace' in edit) {
    if (!text.includes(edit.replace)) throw new Error(`nothing to replace: ${edit.replace}`)
    return text.replace(edit.replace, () => edit.by)
  }
  const value = JSON.parse(text) as Record<string, unknown>
  const last = edit.at.at(-1) ?? ''
  const inner = edit.at.slice(0, -1).reduce((box, step) => box[step] as Record<string, unknown>, value)
  if ('set' in edit) inner[last] = edit.set
  else if (Array.isArray(inner)) inner.splice(Number(last), 1)
  else delete inner[last]
  return JSON.stringify(value)
}

export function mutations(): readonly Mutation[] {
  const { known, bases, cases } = JSON.parse(readFileSync(mutationsFile, 'utf8')) as Table
  return cases.map((one) => ({
    name: one.name,
    valid: one.valid,
    known: known[one.known] ?? {},
    text: one.edits.reduce(edited, bases[one.base] ?? ''),
  }))
}

/** What was seen before, in the form in which the command and the page keep it; null: nothing. */
export const rememberedIn = ({ keys, checkpoints }: Known): string | null =>
  keys === undefined && checkpoints === undefined
    ? null
    : JSON.stringify({ keys: keys ?? [], checkpoints: checkpoints ?? {} })
