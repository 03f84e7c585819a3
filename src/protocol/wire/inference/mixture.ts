import { type Static, type TLiteral, Type } from '@sinclair/typebox'

/** Reserved by the specification and refused with a code of its own. */
export const reservedStrategy = 'debate'

/** Of an expert and of the aggregator (§7, status mapping). */
export const subCallStatuses = ['ok', 'no_node', 'upstream_error', 'billing_declined', 'error'] as const
export type SubCallStatus = (typeof subCallStatuses)[number]
export type SubCallRole = 'expert' | 'aggregator'

const model = Type.String({ minLength: 1, maxLength: 256, description: 'A model id from the model list' })

/**
 * `svc.mixture` of a request, for the description of the interface: the strategies are those of the registry in
 * `machines`, which this layer cannot see. The check itself goes clause by clause (`machines/mixture/config.ts`),
 * because §7 fixes its order and the code of each fault.
 */
export const mixtureConfig = <N extends string>(strategies: readonly N[]) =>
  Type.Object(
    {
      strategy: Type.Union(
        strategies.map((name): TLiteral<N> => Type.Literal(name)),
        { description: `\`${reservedStrategy}\` is reserved and refused` },
      ),
      experts: Type.Array(
        Type.Object(
          { model, weight: Type.Optional(Type.Number({ exclusiveMinimum: 0, default: 1 })) },
          { additionalProperties: false },
        ),
        {
          minItems: 1,
          examples: [[{ model: 'qwen3-8b' }, { model: 'gemma-3-12b' }]],
          description: 'At most 4, unless the operator allows more. The aggregator does not count.',
        },
      ),
      aggregator: Type.Optional(
        Type.Object(
          { model },
          {
            description: 'Required for `synthesize`, otherwise ignored',
            examples: [{ model: 'qwen3-32b' }],
            additionalProperties: false,
          },
        ),
      ),
      min_experts: Type.Optional(
        Type.Integer({
          minimum: 1,
          description:
            'The quorum: how many experts must answer. The default is half of them, rounded up, for `vote`, otherwise 1.',
        }),
      ),
      max_price_wei: Type.Optional(Type.Unknown({ description: 'Deprecated: accepted and ignored' })),
    },
    { additionalProperties: false },
  )

/** `svc.mixture` of an answer, of a stream's terminal chunk and of a missed quorum: never any text of an expert. */
export const MixtureTrace = Type.Object({
  strategy: Type.String(),
  degraded: Type.Boolean({ description: 'True if a sub-call failed and the others were enough' }),
  experts: Type.Array(
    Type.Object({
      role: Type.Union([Type.Literal('expert'), Type.Literal('aggregator')]),
      model: Type.String(),
      status: Type.Union(subCallStatuses.map((status) => Type.Literal(status))),
      node_id: Type.String({ description: 'Empty if no node was called' }),
      usage: Type.Object({ total_tokens: Type.Integer() }),
    }),
    { description: 'One entry for each sub-call: the experts in their order, then the aggregator' },
  ),
})
export type MixtureTrace = Static<typeof MixtureTrace>
