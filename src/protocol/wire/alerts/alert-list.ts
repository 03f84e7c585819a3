import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, NullableInstant, nullable, nullableNumber } from '../shapes.ts'

const severity = literals(['critical', 'warning'])

/** One series for which the condition of a rule holds. */
const Alert = Type.Object({
  alert: Type.String({ description: 'The name of the rule, as in `rules`' }),
  severity,
  state: literals(['firing', 'pending']),
  summary: Type.String({ description: 'What is wrong, in a line' }),
  mends: Type.String({ description: 'What to look at and what to do. Text in backticks is code' }),
  help_url: Type.String(),
  value: Type.Unsafe<number | null>({
    ...nullableNumber,
    description: 'Of the expression; null: it is infinite, since nothing else happened',
  }),
  labels: Type.Record(Type.String(), Type.String(), { description: 'Of the series, such as its `node` and `model`' }),
  since: Type.Unsafe<string>({ ...Instant, description: 'Since when the condition holds without a pause' }),
  fires_since: Type.Unsafe<string | null>({
    ...NullableInstant,
    description: 'null: it is pending, because it has not held for `for_seconds`',
  }),
})
export type Alert = Static<typeof Alert>

const AlertRule = Type.Object({
  alert: Type.String(),
  severity,
  when: Type.String({ description: 'When it fires, for a person' }),
  expression: Type.String({ description: 'In PromQL, as in `ops/alerts.yaml`' }),
  for_seconds: count,
  evaluated: Type.Boolean({ description: 'Whether this gateway evaluates it' }),
  why_not: nullable(Type.String({ description: 'Why this gateway does not evaluate it; null: it does' })),
})
export type AlertRule = Static<typeof AlertRule>

/** What is wrong, by the rules of `ops/alerts.yaml` (§18). */
export const AlertList = Type.Object({
  object: Type.Literal(`${brand}.admin.alerts`),
  generated_at: Instant,
  count,
  evaluated_at: Type.Unsafe<string | null>({ ...NullableInstant, description: 'null: not yet since the start' }),
  silent_processes: Type.Unsafe<number>({
    ...count,
    description: 'Processes of this gateway that did not say what they have counted',
  }),
  series_left_out: Type.Unsafe<number>({
    ...count,
    description: 'Series of metrics that nothing looked at, because there are too many',
  }),
  rules: Type.Array(AlertRule, { description: 'Every rule there is' }),
  alerts: Type.Array(Alert, { description: 'Critical ones first, then firing ones; of one rule at most 100' }),
})
export type AlertList = Static<typeof AlertList>
