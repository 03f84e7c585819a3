import { foreignJson } from './foreign-json.ts'
import type { Json } from './json-object.ts'
import { scanJson } from './json-scan.ts'

/** Of fewer digits every number is kept as it was written. */
const mayLoseDigits = /\d[\d.]{15}/
const digitsSafe = 16
/** Values of a text whose numbers are looked at, each of which takes a third of a microsecond: a request has one text, an answer may have 256. */
const requestValuesMax = 50_000
const inputValuesMax = 2_000

const isLookedAt = (text: string, most: number): boolean =>
  mayLoseDigits.test(text) &&
  typeof scanJson(text, null, { membersInAllMax: most, containersMax: most, commasInAllMax: most }) !== 'string'

type Reviver = Parameters<typeof JSON.parse>[1]
const { rawJSON } = JSON as unknown as { rawJSON(text: string): unknown }

const exact = ((_: string, value: unknown, { source = '' }: { readonly source?: string }) =>
  typeof value === 'number' && source.length >= digitsSafe && String(value) !== source
    ? rawJSON(source)
    : value) as unknown as Reviver

/**
 * As `foreignJson`, but what JSON makes of the value has the digits of its text: ids of 64 bits are no numbers of JavaScript. A
 * number that would lose digits is no `number` in the value. Texts of more than 2,000 values are read as `foreignJson` does.
 */
export function foreignJsonExactly(text: string): unknown {
  const value = foreignJson(text)
  return typeof value === 'object' && value !== null && isLookedAt(text, inputValuesMax)
    ? JSON.parse(text, exact)
    : value
}

/** `value`: of `text`, parsed and checked. These members of it as `foreignJsonExactly` has them. */
export function withDigits<T extends object>(value: T, text: string, names: readonly (keyof T & string)[]): T {
  if (!isLookedAt(text, requestValuesMax)) return value
  const whole = JSON.parse(text, exact) as Json
  const members = names.filter((name) => Object.hasOwn(value, name)).map((name) => [name, whole[name]])
  return { ...value, ...Object.fromEntries(members) }
}
