import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, nullable } from '../shapes.ts'

const ms = nullable(Type.Integer({ minimum: 0, description: 'To 5 %; null: nothing was measured' }))

/** What a set of requests came to. */
const measureFields = {
  requests: count,
  failed: Type.Unsafe<number>({ ...count, description: 'Ended with a code, though the client had not left' }),
  prompt_tokens: count,
  completion_tokens: count,
  ttft_p50_ms: ms,
  ttft_p95_ms: ms,
  duration_p50_ms: ms,
  duration_p95_ms: ms,
}
export const TrafficMeasure = Type.Object(measureFields)
export type TrafficMeasure = Static<typeof TrafficMeasure>

const compared = {
  now: Type.Unsafe<TrafficMeasure>({ ...TrafficMeasure, description: 'In the range' }),
  before: Type.Unsafe<TrafficMeasure>({ ...TrafficMeasure, description: 'In the range before, of the same length' }),
}

/** The requests of a range, beside those of the range before. */
export const AdminTraffic = Type.Object({
  object: Type.Literal(`${brand}.admin.traffic`),
  generated_at: Instant,
  from: Instant,
  to: Instant,
  before_from: Type.Unsafe<string>({
    ...Instant,
    description: 'Where the range before begins; it ends where this one begins',
  }),
  step_seconds: Type.Integer({ minimum: 60, description: 'Of `points`: 60, 3,600 or 86,400' }),
  kept_days: Type.Integer({
    minimum: 0,
    description: '`SVC_REQUEST_LOG_DAYS`; 0: no requests are kept, and all is empty',
  }),
  complete: Type.Boolean({ description: 'false: of the youngest hours only the newest 100,000 requests were read' }),
  unread: Type.Array(Type.Object({ from: Instant, to: Instant }), {
    description: 'Had so many requests that no figure has them; empty where `complete`',
  }),
  ...compared,
  points: Type.Array(Type.Object({ at: Instant, ...measureFields }), {
    description: 'Of both ranges together, oldest first; a step without requests is left out',
  }),
  nodes: Type.Array(Type.Object({ node_id: Type.String(), ...compared }), {
    description:
      'Those that were called last for a request, most requests first; empty where one node or model is asked for',
  }),
  models: Type.Array(Type.Object({ model: Type.String(), ...compared })),
})
export type AdminTraffic = Static<typeof AdminTraffic>

/** How soon first tokens came in a range. */
export const AdminFirstTokens = Type.Object({
  object: Type.Literal(`${brand}.admin.first_tokens`),
  generated_at: Instant,
  from: Instant,
  to: Instant,
  step_seconds: Type.Integer({ minimum: 60, description: 'Of `points`: 60, 3,600 or 86,400' }),
  kept_days: Type.Integer({
    minimum: 0,
    description: '`SVC_REQUEST_LOG_DAYS`; 0: no requests are kept, and `points` is empty',
  }),
  complete: Type.Boolean({ description: 'false: of the youngest hours only the newest 100,000 requests were read' }),
  points: Type.Array(
    Type.Object({
      at: Instant,
      buckets: Type.Array(
        Type.Object({
          above_ms: Type.Number({ description: 'A first token came later than this, ms' }),
          to_ms: Type.Number({ description: 'and not later than this: five buckets to a power of ten' }),
          count,
        }),
      ),
    }),
    { description: 'Oldest first; steps and buckets without a first token are left out' },
  ),
})
export type AdminFirstTokens = Static<typeof AdminFirstTokens>

/** What was done in a range: a mark in each plot of it. */
export const AdminMarks = Type.Object({
  object: Type.Literal(`${brand}.admin.marks`),
  generated_at: Instant,
  from: Instant,
  to: Instant,
  count,
  complete: Type.Boolean({ description: 'false: there were more; the newest are there' }),
  marks: Type.Array(
    Type.Object({
      at: Instant,
      kind: literals([
        'start',
        'drain',
        'resume',
        'sleep',
        'wake',
        'added',
        'removed',
        'revoked',
        'load',
        'unload',
        'price',
      ]),
      node_id: nullable(Type.String()),
      model: nullable(Type.String()),
      prices: nullable(
        Type.Array(Type.String(), { description: 'Of `price`: wei for a token of a prompt and of an answer' }),
      ),
    }),
    { description: 'Oldest first. `start`: of a gateway' },
  ),
})
export type AdminMarks = Static<typeof AdminMarks>
