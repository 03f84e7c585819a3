import { foreignJson } from '../json/foreign-json.ts'

/** Fields of an untrusted file: a field that is absent or malformed reads as missing. */
export type Fields = Readonly<Record<string, unknown>>

export const fieldsOf = (value: unknown): Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value) ? (value as Fields) : {}
export const textOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)
export const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])
/** Of a list, its texts; any other value becomes a text that no hash and no key has. */
export const textsOf = (value: unknown): readonly string[] => listOf(value).map((one) => textOf(one) ?? '')
/** A whole number that is exact in JSON, or -1. */
export const wholeOf = (value: unknown): number =>
  Number.isSafeInteger(value) && Number(value) >= 0 ? Number(value) : -1

/** `1e999` is JSON, and has no form in RFC 8785. */
const allFinite = (value: unknown): boolean => {
  if (typeof value === 'number') return Number.isFinite(value)
  if (Array.isArray(value)) return value.every(allFinite)
  return typeof value !== 'object' || value === null || Object.values(value).every(allFinite)
}
/** A number with fewer digits and without an exponent is never too large. */
const mayBeHuge = /\d{300}|\d[eE]\+?\d/

/** The value of a JSON text whose numbers all have a canonical form; undefined: another text. */
export function hashableJson(text: string): unknown {
  const value = foreignJson(text)
  return mayBeHuge.test(text) && !allFinite(value) ? undefined : value
}
