import { type TObject, Type } from '@sinclair/typebox'

const id = '^[A-Za-z0-9_-]{1,64}$'
/** Where a part of a path is no id. The patterns exclude NUL, which would cause an error in the database. */
const patterns: Readonly<Record<string, string>> = { receipt_hash: '^0x[0-9a-f]{64}$' }
/** Parts that the handler looks at by itself. */
const unchecked = new Set(['request_id'])

/** The names of the parts of a path: `:node_id`. */
export type ParamsOf<P extends string> = P extends `${string}:${infer N}/${infer R}`
  ? { readonly [K in N]: string } & ParamsOf<`/${R}`>
  : P extends `${string}:${infer N}`
    ? { readonly [K in N]: string }
    : unknown

const partOf = (name: string) => (unchecked.has(name) ? Type.String() : Type.String({ pattern: patterns[name] ?? id }))

/** What the parts of a path must be; null: it has none. */
export function paramsOf(path: string): TObject | null {
  const names = [...path.matchAll(/:(\w+)/g)].map(([, name = '']) => name)
  return names.length === 0 ? null : Type.Object(Object.fromEntries(names.map((name) => [name, partOf(name)])))
}
