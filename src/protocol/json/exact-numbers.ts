import { foreignJson } from './foreign-json.ts'
import type { Json } from './json-object.ts'

/** Of fewer digits every number is kept as it was written. */
const mayLoseDigits = /\d{16}/
const digitsSafe = 16

type Reviver = Parameters<typeof JSON.parse>[1]
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

const exact = ((_: string, value: unknown, { source = '' }: { readonly source?: string }) =>
  typeof value === 'number' && source.length >= digitsSafe && String(value) !== source
    ? rawJSON(source)
    : value) as unknown as Reviver

/**
 * As `foreignJson`, but what JSON makes of the value has the digits of its text: ids of 64 bits are no numbers of JavaScript. A
 * number that would lose digits is no `number` in the value.
 */
export function foreignJsonExactly(text: string): unknown {
  const value = foreignJson(text)
  return typeof value === 'object' && value !== null && mayLoseDigits.test(text) ? JSON.parse(text, exact) : value
}

/** `value`: of `text`, parsed and checked. These members of it as `foreignJsonExactly` has them. */
export function withDigits<T extends object>(value: T, text: string, names: readonly (keyof T & string)[]): T {
  if (!mayLoseDigits.test(text)) return value
  const whole = JSON.parse(text, exact) as Json
  const members = names.filter((name) => Object.hasOwn(value, name)).map((name) => [name, whole[name]])
  return { ...value, ...Object.fromEntries(members) }
}
