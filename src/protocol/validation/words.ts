import type { TSchema } from '@sinclair/typebox'
import { inDigits } from '../../amounts.ts'
import { wordsKey } from '../wire/shapes.ts'
import { branchesOf } from './faults.ts'

/** One word in the place of an enumeration may be repeated; a longer text could be a prompt or a credential. */
const wordForm = /^[A-Za-z][A-Za-z0-9_.-]{0,19}$/
/** Values that a sentence lists; OpenAPI has those of a longer list. */
const listedMax = 24
/** The characters of a longer text are not counted one by one. */
const countedUnitsMax = 1024 * 1024

export const listed = (words: readonly string[], last: 'or' | 'and'): string =>
  words.length < 2 ? (words[0] ?? '') : `${words.slice(0, -1).join(', ')} ${last} ${words.at(-1)}`

interface Keywords extends TSchema {
  readonly const?: unknown
  readonly enum?: readonly string[]
  readonly minimum?: number
  readonly exclusiveMinimum?: number
  readonly maximum?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly pattern?: string
  readonly format?: string
  readonly minItems?: number
  readonly maxItems?: number
  readonly uniqueItems?: boolean
  readonly maxProperties?: number
  readonly [wordsKey]?: string
}

const isNumeric = ({ type }: TSchema) => type === 'integer' || type === 'number'
const isConstant = (schema: TSchema) => 'const' in schema && schema.const !== null
const isWord = (schema: TSchema) => isConstant(schema) || 'enum' in schema

/** Of a number that breaks a bound, the other bound is not named. */
function numberWords({ type, minimum, exclusiveMinimum: above, maximum }: Keywords, value: unknown): string {
  const kind = type === 'integer' ? 'a whole number' : 'a number'
  const given = typeof value === 'number' && (type === 'number' || Number.isInteger(value)) ? value : null
  const tooLarge = given !== null && maximum !== undefined && given > maximum
  if (tooLarge) return `${kind} of at most ${inDigits(maximum)}`
  if (above !== undefined) {
    const most = maximum === undefined || given !== null ? '' : ` and at most ${inDigits(maximum)}`
    return `${kind} above ${inDigits(above)}${most}`
  }
  if (minimum === undefined) return maximum === undefined ? kind : `${kind} of at most ${inDigits(maximum)}`
  if (maximum === undefined || given !== null) return `${kind} of at least ${inDigits(minimum)}`
  return `${kind} from ${inDigits(minimum)} to ${inDigits(maximum)}`
}

/** ` of 1 to 8 items`; nothing where all counts are good. */
function countWords(least = 0, most: number | undefined, unit: string): string {
  const units = (count: number) => `${inDigits(count)} ${unit}${count === 1 ? '' : 's'}`
  if (most === undefined) return least === 0 ? '' : ` of at least ${units(least)}`
  if (least === most) return ` of exactly ${units(most)}`
  return least === 0 ? ` of at most ${units(most)}` : ` of ${inDigits(least)} to ${units(most)}`
}

function textWords({ format, pattern, minLength, maxLength }: Keywords): string {
  if (format === 'date-time') return 'a time such as 2026-11-20T16:00:00Z'
  if (minLength === 1 && maxLength === undefined) return 'text that is not empty'
  const text = `text${countWords(minLength, maxLength, 'character')}`
  return pattern === undefined ? text : `${text} that matches ${pattern}`
}

function branchWords(schema: Keywords, value: unknown): string {
  const words = schema[wordsKey]
  if (words !== undefined) return words
  if (schema.enum !== undefined) return `one of ${schema.enum.slice(0, listedMax).join(', ')}`
  if (isConstant(schema)) return schema.const === '' ? 'an empty text' : String(schema.const)
  if (isNumeric(schema)) return numberWords(schema, value)
  switch (schema.type) {
    case 'string':
      return textWords(schema)
    case 'boolean':
      return 'true or false'
    case 'array':
      return `a list${countWords(schema.minItems, schema.maxItems, schema.uniqueItems === true ? 'different item' : 'item')}`
    case 'object':
      return `an object${countWords(0, schema.maxProperties, 'field')}`
    case 'null':
      return 'null'
    default:
      return 'any value'
  }
}

/**
 * What a value must be, as a noun: `a whole number from 1 to 8, or null`, `one of system, user, assistant, tool`.
 * `value`: what was sent; where it has the type of a branch, null is not named beside that branch.
 */
export function expected(schema: TSchema, value?: unknown): string {
  const all = branchesOf(schema)
  const branches =
    value !== undefined && all.some((branch) => isOfType(branch, value))
      ? all.filter(({ type }) => type !== 'null')
      : all
  const constants = branches.filter(isConstant).map((branch) => branchWords(branch, value))
  const others = branches.filter((branch) => !isConstant(branch)).map((branch) => branchWords(branch, value))
  const named = constants.length < 2 ? constants : [`one of ${constants.slice(0, listedMax).join(', ')}`]
  const words = [...new Set([...named, ...others])]
  return words.some((word) => / (?:or|to) |,/.test(word)) && words.length > 1
    ? `${words.slice(0, -1).join(', ')}, or ${words.at(-1)}`
    : listed(words, 'or')
}

function isOfType(schema: TSchema, value: unknown): boolean {
  if (typeof value === 'number') return isNumeric(schema)
  return Array.isArray(value) ? schema.type === 'array' : schema.type === typeof value
}

/** What was sent. A text is repeated only where a word of an enumeration belongs. */
export function sent(schema: TSchema, value: unknown): string {
  if (value === null || typeof value === 'boolean') return String(value)
  if (typeof value === 'number') return Number.isFinite(value) ? inDigits(value) : 'a number that is too large'
  const branches = branchesOf(schema)
  const known = branches.some((branch) => isOfType(branch, value))
  if (Array.isArray(value)) {
    if (value.length === 0) return 'an empty list'
    return known ? `a list${countWords(value.length, value.length, 'item').replace(' exactly', '')}` : 'a list'
  }
  if (typeof value !== 'string') return 'an object'
  if (value === '') return 'an empty text'
  if (branches.some(isWord) && wordForm.test(value)) return value
  const characters = value.length > countedUnitsMax ? value.length : [...value].length
  return known ? `text of ${inDigits(characters)} character${characters === 1 ? '' : 's'}` : 'text'
}

/** `must be a whole number of at least 1; you sent -1`. */
export const mustBe = (schema: TSchema, value: unknown): string =>
  `must be ${expected(schema, value)}; you sent ${sent(schema, value)}`
