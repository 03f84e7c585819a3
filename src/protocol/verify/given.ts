/** Fields of an untrusted file: a field that is absent or malformed reads as missing. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
