import { type TLiteral, type TSchema, type TUnion, Type } from '@sinclair/typebox'

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
export const noControls = '^[^\\u0000-\\u001f\\u007f]*$'
export const text = (maxLength: number) => Type.String({ minLength: 1, maxLength, pattern: noControls })
export const optionalText = (maxLength: number) =>
  Type.Optional(nullable(Type.String({ maxLength, pattern: noControls })))
export const wei = Type.String({ pattern: '^(0|[1-9][0-9]{0,77})$', description: 'Whole wei as a decimal number' })
/** `0x` and 64 hex digits. */
export const hash = Type.String({ pattern: '^0x[0-9a-f]{64}$' })
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
