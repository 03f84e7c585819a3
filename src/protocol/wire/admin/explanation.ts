import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, nullable, nullableInteger, nullableNumber } from '../shapes.ts'

export const Explanation = Type.Object({
  object: Type.Literal(`${brand}.admin.explanation`),
  request_id: Type.String(),
  model: Type.String(),
  customer_id: nullable(Type.String({ description: 'null for viewers' })),
  tries: Type.Array(
    Type.Object({
      at: Instant,
      model: Type.Optional(
        Type.String({
          description: 'The one that was looked for, where the request names several. Absent: of an earlier version',
        }),
      ),
      result: literals(['placed', 'saturated', 'asleep', 'refused']),
      code: nullable(Type.String()),
      routes: Type.Array(
        Type.Object({
          node_id: Type.String(),
          model_profile_id: Type.String(),
          node_state: Type.String(),
          verdict: literals(['chosen', 'eligible', 'refused']),
          reason: Type.String(),
          own: Type.Boolean(),
          in_flight: count,
          slots_total: nullableInteger,
          ttft_ewma_ms: nullable(
            Type.Number({
              description: 'What the gateway believed: the moving mean of first tokens, not a measured one',
            }),
          ),
          tokens_per_second: nullableNumber,
          cost: nullable(
            Type.Object(
              {
                backlog_ms: Type.Number(),
                own_ms: Type.Number(),
                fleet_ms: Type.Number(),
                slot_wait_ms: Type.Number(),
                slots: Type.Optional(
                  nullable(
                    Type.Integer({
                      description:
                        'calls that it was thought to answer at once: told by its server, or fewer as learnt from first tokens. null: neither. Absent: of an earlier version',
                    }),
                  ),
                ),
                cold_ms: Type.Number(),
                wake_ms: Type.Optional(
                  Type.Number({ description: 'until its node is awake. Absent: of an earlier version' }),
                ),
                doubt_ms: Type.Optional(
                  Type.Number({
                    description:
                      'taken off: by so much it may be faster than it is thought to be. Absent: of an earlier version',
                  }),
                ),
                matched_share: Type.Number({
                  description: 'of the prompt, thought to be in its cache',
                  minimum: 0,
                  maximum: 1,
                }),
                total_ms: Type.Number(),
              },
              { description: 'what the first token was expected to cost there; null: it was not weighed' },
            ),
          ),
        }),
      ),
    }),
  ),
})
export type Explanation = Static<typeof Explanation>
