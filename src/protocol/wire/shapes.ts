import { type StringOptions, type TLiteral, type TSchema, type TUnion, Type } from '@sinclair/typebox'
import { modelIdPattern } from '../../ids.ts'

/** What a text must be, as a noun, where length and pattern do not say it to a person. It is a symbol, so no document shows it. */
export const wordsKey = Symbol('words')

/** Building blocks of the admin schemas. */
export const nullable = <S extends TSchema>(schema: S) => Type.Union([schema, Type.Null()])
export type Literals<T extends readonly string[]> = T extends readonly [
  infer F extends string,
  ...infer R extends readonly string[],
]
  ? [TLiteral<F>, ...Literals<R>]
  : []
export const literals = <const T extends readonly string[]>(values: T) =>
  Type.Union(values.map((value) => Type.Literal(value))) as unknown as TUnion<Literals<T>>
/** Of a header or of a body that names rows by their ETags: far more of them than there are to name. */
export const etagsCharactersMax = 1_024
/** The header `ETag` of a row, for `If-Match`. */
export const etag = Type.String({
  description: 'The row as it is now, for `If-Match`: another one after each change of what can be edited',
})

export const strict = { additionalProperties: false } as const
const noControls = '^[^\\u0000-\\u001f\\u007f]*$'
/** A text with a form; `words`: what it must be, for a person whose text has another one. */
export const formed = (pattern: string, words: string, more: StringOptions = {}) =>
  Type.String({ ...more, pattern, [wordsKey]: words } as StringOptions)
const oneLine = (range: string) => `text of ${range} characters on one line`
export const text = (maxLength: number) => formed(noControls, oneLine(`1 to ${maxLength}`), { minLength: 1, maxLength })
export const optionalText = (maxLength: number) =>
  Type.Optional(nullable(formed(noControls, oneLine(`at most ${maxLength}`), { maxLength })))
export const wei = formed('^(0|[1-9][0-9]{0,77})$', 'whole wei as a text of digits, such as "1000"', {
  description: 'Whole wei as a decimal number',
})
/** The key of a model server. */
export const serverKey = (more: StringOptions = {}) =>
  formed('^[\\x21-\\x7e]{1,512}$', '1 to 512 printable ASCII characters without spaces', more)
/** The id of a customer, a node or a key. */
export const id = formed('^[A-Za-z0-9_-]{1,64}$', '1 to 64 letters, digits, _ or -')
export const slug = (more: StringOptions = {}) =>
  formed('^[A-Za-z0-9._-]{1,64}$', '1 to 64 letters, digits or . _ -', more)
/** An id that a client chooses (§1). */
export const chosenId = (more: StringOptions = {}) =>
  formed('^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$', '1 to 64 letters, digits, _ or -, beginning with a letter or digit', more)
export const modelId = formed(
  modelIdPattern.source,
  'the id of a model: 1 to 128 letters, digits or . _ : / @ -, beginning with a letter or digit',
)
/** A route tier of an agent's node. */
export const nodeTier = (more: StringOptions = {}) =>
  formed(
    '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
    '1 to 64 letters, digits or . _ -, beginning with a letter or digit',
    more,
  )
export const address = formed('^0x[0-9a-fA-F]{40}$', 'an Ethereum address: 0x and 40 hexadecimal digits')
/** `0x` and 64 hex digits. */
export const hash = formed('^0x[0-9a-f]{64}$', '0x and 64 hexadecimal digits in lower case')
export const count = Type.Integer({ minimum: 0 })
export const nullableNumber = nullable(Type.Number())
export const nullableInteger = nullable(Type.Integer())
/** RFC 3339, UTC, milliseconds (§1). */
export const Instant = Type.String({ format: 'date-time', examples: ['2026-11-20T16:00:00.000Z'] })
export const NullableInstant = Type.Union([Instant, Type.Null()])
/** Kept with the action where the policy asks for one (§16); a route without a body takes the header. */
export const reasonCharactersMax = 500
export const reason = Type.Optional(
  Type.String({ maxLength: reasonCharactersMax, description: 'The reason, for the audit' }),
)
