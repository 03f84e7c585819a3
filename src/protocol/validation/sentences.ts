import type { TSchema } from '@sinclair/typebox'
import { quoteValue } from '../../errors.ts'
import { nearest } from '../../nearest.ts'
import type { Fault } from './faults.ts'
import { expected, listed, mustBe } from './words.ts'

/** How much of a misspelt field's name may differ, and how many fields a sentence lists. */
const changesShare = 0.34
const fieldsListedMax = 12

/** `/messages/0/role` → `messages[0].role`. */
export function dottedPath(pointer: string): string {
  const parts = pointer.split('/').slice(1)
  const path = parts
    .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
    .reduce((all, part) => (/^[0-9]+$/.test(part) ? `${all}[${part}]` : all === '' ? part : `${all}.${part}`), '')
  return quoteValue(path)
}

/** A caller's own name is repeated where it looks like one: it could be a prompt or a credential. */
const nameForm = /^[A-Za-z0-9_.:-]{1,40}$/

/** For rooms that do not know TypeBox. */
export type FieldSchema = TSchema

/** `field`: its dotted path. */
export function unknownField(field: string, key: string, schema: TSchema): string {
  const known = Object.keys((schema.properties as object | undefined) ?? {})
  const [form] = Object.keys((schema.patternProperties as object | undefined) ?? {})
  const isNot = `${nameForm.test(key) ? field : 'A name that you sent'} is not a field here`
  const meant = nearest(key, known, Math.max(1, Math.floor(key.length * changesShare)))
  if (meant !== null) return `${isNot}. Did you mean ${meant}?`
  if (form !== undefined) return `${isNot}: a name must match ${form}.`
  if (known.length === 0) return `${isNot}: the object must be empty.`
  const named = known.length > fieldsListedMax ? [...known.slice(0, fieldsListedMax), 'others'] : known
  return `${isNot}. The fields are ${listed(named, 'and')}.`
}

/** What is wrong with one field; an undefined value is missing. */
export function fieldSentence(field: string, schema: TSchema, value: unknown): string {
  if (value !== undefined) return `${field} ${mustBe(schema, value)}.`
  const [example] = (schema.examples as readonly unknown[] | undefined) ?? []
  const what = Array.isArray(example) ? 'a list' : typeof example === 'object' ? 'an object' : expected(schema)
  return `${field} is missing. Send ${what}${example === undefined ? '' : ` such as ${JSON.stringify(example)}`}.`
}

/** The one writer of sentences about a body: which field, what it must be, and what was sent. */
export function sentenceOf({ pointer, code, schema, value }: Fault): string {
  const field = dottedPath(pointer)
  const key = pointer
    .slice(pointer.lastIndexOf('/') + 1)
    .replaceAll('~1', '/')
    .replaceAll('~0', '~')
  if (code === 'unknown_field') return unknownField(field, key, schema)
  return fieldSentence(field === '' ? 'The body' : field, schema, value)
}
