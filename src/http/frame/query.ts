import { OptionalKind, type TSchema, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { expected, mustBe } from '../../protocol/validation/words.ts'
import type { QueryParameters, QueryValues } from '../../protocol/wire/query.ts'

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
