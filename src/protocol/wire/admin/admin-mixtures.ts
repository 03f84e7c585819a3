import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { subCallStatuses } from '../inference/mixture.ts'
import { count, Instant, literals, nullable } from '../shapes.ts'

const subCall = Type.Object({
  role: literals(['expert', 'aggregator']),
  model: Type.String(),
  weight: nullable(Type.Number({ description: 'null: the aggregator has none' })),
  status: literals(subCallStatuses),
  node_id: Type.String({ description: 'Empty if no node was called' }),
  request_id: nullable(Type.String({ description: 'The request id of the sub-call that its node got' })),
  receipt_hash: nullable(Type.String()),
  latency_ms: nullable(Type.Integer({ minimum: 0, description: 'null: it gave no answer' })),
  usage: Type.Object({ total_tokens: nullable(Type.Integer({ minimum: 0, description: 'null: it gave no answer' })) }),
})

/** One finished mixture: metadata only, no prompt and no answer (§23). */
export const RecentMixture = Type.Object({
  request_id: Type.String(),
  customer_id: nullable(Type.String({ description: 'null for viewers' })),
  strategy: Type.String(),
  outcome: literals(['succeeded', 'degraded', 'quorum_not_met', 'refused', 'cancelled', 'failed']),
  code: nullable(Type.String({ description: 'The code of the refusal or failure' })),
  degraded: Type.Boolean(),
  min_experts: nullable(Type.Integer({ description: 'The quorum; null: refused before its configuration was read' })),
  started_at: Instant,
  ended_at: Instant,
  latency_ms: count,
  usage: Type.Object({ prompt_tokens: count, completion_tokens: count, total_tokens: count }),
  experts: Type.Array(subCall, {
    description: 'The experts in their order, then the aggregator. Empty if no sub-call was sent.',
  }),
})
export type RecentMixture = Static<typeof RecentMixture>

/** How many mixtures each process keeps in memory. */
export const mixturesKeptMax = 1_000
export const MixtureList = Type.Object({
  object: Type.Literal(`${brand}.admin.mixture_list`),
  generated_at: Instant,
  count,
  mixtures: Type.Array(RecentMixture),
})
export type MixtureList = Static<typeof MixtureList>
