import { type TNull, type TOptional, type TSchema, type TUnion, Type } from '@sinclair/typebox'
import type { Door, Fate, Field } from './field.ts'
import { openAiFields } from './openai-fields.ts'
import { serverFields } from './server-fields.ts'
import { anthropicFields, ollamaFields, ownFields, rankingFields } from './vendor-fields.ts'

const table = {
  ...openAiFields,
  ...anthropicFields,
  ...ollamaFields,
  ...rankingFields,
  ...serverFields,
  ...ownFields,
}
type Table = typeof table

/**
 * Each field of a request beside its prompt, once. The readers of requests, what they check, OpenAPI's requests, docs/reference/fields.md
 * and the test that sends each field through each door follow from it. What the table lacks goes to the account's own nodes by its name
 * (`members/unlisted.ts`).
 */
export const fields: Readonly<Record<string, Field>> = table

/** What beside those fields belongs to a request: its prompt, its tools, its model, and whether it is a stream. Ollama's differ by path. */
export const promptNames: Readonly<Record<Exclude<Door, 'ollama'>, readonly string[]>> = {
  chat: ['model', 'messages', 'tools', 'tool_choice', 'functions', 'function_call', 'stream'],
  completions: ['model', 'prompt', 'stream'],
  embeddings: ['model', 'input'],
  rerank: ['model', 'query', 'documents', 'stream'],
  responses: ['model', 'input', 'tools', 'tool_choice', 'stream'],
  messages: ['model', 'messages', 'tools', 'tool_choice', 'stream'],
}

/** The names that have this fate at this door. */
export const namesOf = (door: Door, fate: Fate): ReadonlySet<string> =>
  new Set(Object.keys(fields).filter((name) => fields[name]?.at[door] === fate))

/** Type and range of a field at a door. */
export const valueAt = ({ value, valueAt: others = {} }: Field, door: Door): TSchema => others[door] ?? value

type ValueOf<D extends Door, N extends keyof Table> = Table[N] extends {
  readonly valueAt: { readonly [K in D]: infer S extends TSchema }
}
  ? S
  : Table[N]['value']

/** The check of one field at a door. */
export const checkOf = <D extends Door, N extends keyof Table>(door: D, name: N): ValueOf<D, N> =>
  valueAt(table[name], door) as ValueOf<D, N>

type Nullable<D extends Door, N extends keyof Table> = TOptional<TUnion<[ValueOf<D, N>, TNull]>>

/** The checks of those fields at a door, each of which may be left out or null. */
export function checksOf<D extends Door, const N extends readonly (keyof Table)[]>(
  door: D,
  ...names: N
): { [K in N[number]]: Nullable<D, K> } {
  const checks = names.map((name) => [name, Type.Optional(Type.Union([checkOf(door, name), Type.Null()]))] as const)
  return Object.fromEntries(checks) as { [K in N[number]]: Nullable<D, K> }
}
