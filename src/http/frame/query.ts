import {
  OptionalKind,
  type Static,
  type TInteger,
  type TOptional,
  type TSchema,
  type TUnsafe,
  Type,
} from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { expected, mustBe } from '../../protocol/validation/words.ts'
import { wordsKey } from '../../protocol/wire/shapes.ts'

/** Strings with a pattern, and integers with bounds and a default. */
export type QueryParameters = Readonly<Record<string, TSchema>>
/** One that may be absent is null then. */
export type QueryValues<S extends QueryParameters> = {
  readonly [N in keyof S]: S[N] extends TOptional<TSchema> ? Static<S[N]> | null : Static<S[N]>
}

/** Also a key of a route's `detail`, where the route reads its query by itself. */
export const queryKey = `x-${brand}-query`
const integerPattern = /^[0-9]{1,9}$/

/** `says`: the fault, which follows the parameter's name. */
export function invalidParameter(parameter: string, says: string, code = 'invalid'): Problem {
  const detail = `${parameter} ${says}.`
  return new Problem('invalid_parameter', {
    param: `query.${parameter}`,
    detail,
    errors: [{ parameter, code, detail }],
  })
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

export const matches = ({ pattern }: TSchema, given: string): boolean => new RegExp(pattern, 'u').test(given)

/** The form of a number that a sentence may repeat. */
const numberForm = /^-?[0-9]{1,15}(?:\.[0-9]{1,15})?$/

function readInteger(name: string, schema: TSchema, given: string | undefined): number {
  const { minimum, maximum, default: standard } = schema
  if (given === undefined) return standard
  const value = integerPattern.test(given) ? Number(given) : Number.NaN
  if (value >= minimum && value <= maximum) return value
  throw invalidParameter(name, mustBe(schema, numberForm.test(given) ? Number(given) : given), 'out_of_range')
}

function readText(name: string, schema: TSchema, given: string | undefined): string | null {
  if (given === undefined) {
    if (!(OptionalKind in schema)) throw invalidParameter(name, `is missing. Send ${expected(schema)}`, 'required')
    return null
  }
  if (!matches(schema, given)) throw invalidParameter(name, mustBe(schema, given))
  return given
}

/**
 * Known parameters of a URL. Elysia keeps the last of two values and reads `1e0` as 1; here a duplicate is a 400 and an
 * integer is digits (§1). Unknown parameters are ignored.
 */
function readQuery<S extends QueryParameters>(url: string, spec: S): QueryValues<S> {
  const cut = url.indexOf('?')
  const given = new URLSearchParams(cut === -1 ? '' : url.slice(cut + 1))
  const values: Record<string, unknown> = {}
  for (const [name, parameter] of Object.entries(spec)) {
    const [value, second] = given.getAll(name)
    if (second !== undefined) throw invalidParameter(name, 'is given more than once. Send it once', 'duplicate')
    values[name] = parameter.type === 'integer' ? readInteger(name, parameter, value) : readText(name, parameter, value)
  }
  return values as QueryValues<S>
}

/**
 * Options of a route that reads its query. One schema gives the OpenAPI document, the check and the handler's `query`.
 * `documented`: for a route that documents more parameters than are checked here.
 */
export function asks<S extends QueryParameters>(spec: S, documented: QueryParameters = spec) {
  return {
    query: Type.Unsafe<QueryValues<S>>({ ...Type.Any(), [queryKey]: documented, noValidate: true }),
    beforeHandle: (context: { readonly request: Request; query: unknown }): void => {
      context.query = readQuery(context.request.url, spec)
    },
  }
}

/** A mounted route's description of its query. */
export function describedQuery(hooks: { readonly query?: unknown; readonly detail?: unknown }): QueryParameters {
  const { [queryKey]: described = {} } = (hooks.query ?? hooks.detail ?? {}) as Readonly<
    Record<string, QueryParameters | undefined>
  >
  return described
}
