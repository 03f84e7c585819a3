import { type Static, type TInteger, type TOptional, type TSchema, type TUnsafe, Type } from '@sinclair/typebox'
import { wordsKey } from './shapes.ts'

/** Strings with a pattern, and integers with bounds and a default. */
export type QueryParameters = Readonly<Record<string, TSchema>>
/** One that may be absent is null then. */
export type QueryValues<S extends QueryParameters> = {
  readonly [N in keyof S]: S[N] extends TOptional<TSchema> ? Static<S[N]> | null : Static<S[N]>
}

export const whole = (minimum: number, maximum: number, standard: number, description: string): TInteger =>
  Type.Integer({ minimum, maximum, default: standard, description })

/** `pattern` counts characters, not UTF-16 units; `words`: the allowed form, for the error message. */
export const text = (pattern: string, words: string, description: string): TUnsafe<string> =>
  Type.Unsafe<string>({ type: 'string', pattern, description, [wordsKey]: words })

/** An optional filter. */
export const filter = (
  description: string,
  pattern = '^[^\\u0000-\\u001f\\u007f]{1,128}$',
  words = 'text of 1 to 128 characters on one line',
) => Type.Optional(text(pattern, words, description))

/** Of one customer, node or key. */
export const idFilter = (description: string) =>
  filter(description, '^[A-Za-z0-9_-]{1,64}$', '1 to 64 letters, digits, _ or -')

/** For answers that have a table form. */
export const formatParameter = filter('`json` (default) or `csv`', '^(?:[jJ][sS][oO][nN]|[cC][sS][vV])$', 'json or csv')

/** A filter by one of a few words. */
export const oneOf = <T extends string>(values: readonly T[], description = `One of ${values.join(', ')}`) =>
  Type.Optional(Type.Unsafe<T>({ type: 'string', enum: values, pattern: `^(${values.join('|')})$`, description }))

export const limitOf = (standard: number, max: number): TInteger =>
  whole(1, max, standard, 'How many items the answer may have')
export const customerFilter = idFilter('Only those of this customer')
/** §17. */
export const windowDays = whole(1, 365, 30, 'How many days back the answer reaches')
