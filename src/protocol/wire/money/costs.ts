import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, NullableInstant, nullable, wei } from '../shapes.ts'

/** What customers paid in a range, put together. */
export const Costs = Type.Object({
  object: Type.Literal(`${brand}.admin.costs`),
  generated_at: Instant,
  by: literals(['customer', 'model', 'key', 'month', 'tag']),
  from: Instant,
  to: Instant,
  kept_from: { ...NullableInstant, description: 'Earlier requests are not kept; null: the whole range is in it' },
  count,
  truncated: Type.Boolean(),
  costs: Type.Array(
    Type.Object({
      key: nullable(Type.String({ description: 'A customer, a model, a key, a tag, or a month as `2026-05`' })),
      name: nullable(Type.String({ description: 'Of the customer' })),
      count: Type.Unsafe<number>({ ...count, description: 'Paid requests and jobs' }),
      amount_wei: wei,
      refunded_wei: Type.Unsafe<string>({ ...wei, description: 'What was given back of it since' }),
      prompt_tokens: count,
      completion_tokens: count,
    }),
  ),
})
export type Costs = Static<typeof Costs>
