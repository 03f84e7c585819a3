import type { bases } from './bases.ts'

/** One change of a file: of its text, or of the value at a path. Absent `set` and `by`: what is there goes. */
export type Edit =
  | { readonly replace: string; readonly by: string }
  | { readonly at: readonly (string | number)[]; readonly set?: unknown }

export interface Case {
  readonly name: string
  readonly base: string
  readonly edits: readonly Edit[]
  /** What the one who verifies knows. */
  readonly known: string
  readonly valid: boolean
}

export type Bases = Awaited<ReturnType<typeof bases>>
export type Fields = Readonly<Record<string, unknown>>
export const fileOf = (made: Bases, base: string) => JSON.parse(made.texts[base] ?? '') as Fields

export type Row = readonly [name: string, edits: readonly Edit[], valid: boolean, known?: string]
export const rowsOf = (base: string, rows: readonly Row[], known = 'keys'): readonly Case[] =>
  rows.map(([name, edits, valid, own]) => ({ name: `${base}: ${name}`, base, edits, known: own ?? known, valid }))
export const set = (at: readonly (string | number)[], value: unknown): readonly Edit[] => [{ at, set: value }]
export const drop = (...at: readonly (string | number)[]): readonly Edit[] => [{ at }]
export const text = (replace: string, by: string): readonly Edit[] => [{ replace, by }]
