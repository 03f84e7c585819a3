import { Problem } from '../../errors.ts'

interface IntegerParameter {
  readonly kind: 'integer'
  readonly min: number
  readonly max: number
  readonly default: number
  readonly description: string
}
interface TextParameter {
  readonly kind: 'text'
  readonly pattern: RegExp
  readonly required: boolean
  readonly description: string
}
export type QueryParameters = Readonly<Record<string, IntegerParameter | TextParameter>>

type ValueOf<P> = P extends IntegerParameter
  ? number
  : P extends TextParameter & { readonly required: true }
    ? string
    : string | null
export type QueryValues<S extends QueryParameters> = { readonly [N in keyof S]: ValueOf<S[N]> }

const integerPattern = /^[0-9]{1,9}$/

const fault = (parameter: string, code: string, detail: string) =>
  new Problem('invalid_parameter', {
    param: `query.${parameter}`,
    detail: `${parameter}: ${detail}`,
    errors: [{ parameter, code, detail }],
  })

export function limitOf(standard: number, max: number): IntegerParameter {
  return { kind: 'integer', min: 1, max, default: standard, description: 'Most items in the answer' }
}

/** A filter that may be absent. */
export function oneOf(values: readonly string[]) {
  return {
    kind: 'text',
    pattern: new RegExp(`^(${values.join('|')})$`),
    required: false,
    description: `One of ${values.join(', ')}`,
  } as const
}

export const customerFilter = {
  kind: 'text',
  pattern: /^[A-Za-z0-9_-]{1,64}$/,
  required: false,
  description: 'Of one customer',
} as const

/** Of what has a table form. */
export const formatParameter = {
  kind: 'text',
  pattern: /^(?:json|csv)$/i,
  required: false,
  description: '`json` (default) or `csv`',
} as const

/** §17. */
export const windowDays = {
  kind: 'integer',
  min: 1,
  max: 365,
  default: 30,
  description: 'How far back, days',
} as const

function readInteger(name: string, spec: IntegerParameter, text: string | undefined): number {
  if (text === undefined) return spec.default
  const value = integerPattern.test(text) ? Number(text) : Number.NaN
  if (value >= spec.min && value <= spec.max) return value
  throw fault(name, 'out_of_range', `must be a whole number from ${spec.min} to ${spec.max}`)
}

function readText(name: string, spec: TextParameter, text: string | undefined): string | null {
  if (text === undefined) {
    if (spec.required) throw fault(name, 'required', 'is required')
    return null
  }
  if (!spec.pattern.test(text)) throw fault(name, 'invalid', 'has a form that is not valid')
  return text
}

/**
 * Known parameters of a URL. Elysia keeps the last of two values and reads `1e0` as 1; here a duplicate is a 400 and an
 * integer is digits (§1). Unknown parameters are ignored.
 */
export function readQuery<S extends QueryParameters>(url: string, spec: S): QueryValues<S> {
  const cut = url.indexOf('?')
  const given = new URLSearchParams(cut === -1 ? '' : url.slice(cut + 1))
  const values: Record<string, unknown> = {}
  for (const [name, parameter] of Object.entries(spec)) {
    const [text, second] = given.getAll(name)
    if (second !== undefined) throw fault(name, 'duplicate', 'is given more than once')
    values[name] = parameter.kind === 'integer' ? readInteger(name, parameter, text) : readText(name, parameter, text)
  }
  return values as QueryValues<S>
}
