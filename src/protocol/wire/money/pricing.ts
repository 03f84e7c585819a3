import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, wei } from '../shapes.ts'

/** Endpoint 5. */
export const Pricing = Type.Object({
  object: Type.Literal(`${brand}.pricing`),
  generated_at: Instant,
  currency: Type.Literal('wei'),
  max_price_field: Type.Literal('max_price_wei'),
  private_inference: Type.Object({
    enabled: Type.Boolean(),
    policy_version: Type.Literal('private_inference_v1'),
    quote: Type.Object({
      unit: Type.Literal('request'),
      base_price_wei: wei,
      prompt_token_price_wei: wei,
      completion_token_price_wei: wei,
      min_price_wei: wei,
      max_price_wei: wei,
    }),
    billing_policy: Type.Object({
      own_machine: Type.Literal('free'),
      reserve_on: Type.Literal('dispatch'),
      settle_on: Type.Literal('completed'),
      release_on: Type.Array(literals(['failed', 'expired', 'cancelled'])),
    }),
    node_payout: Type.Object({
      node_share_bps: Type.Integer(),
      protocol_fee_bps: Type.Integer(),
      payout_currency: Type.Literal('wei'),
      min_batch_wei: wei,
    }),
  }),
})
export type Pricing = Static<typeof Pricing>

const usd = Type.String({ pattern: '^[0-9]+(\\.[0-9]+)?$', description: 'USD, decimal, never with an exponent' })
const modalities = Type.Array(literals(['text', 'image', 'file', 'audio']))

/** Endpoint 10. */
export const Marketplace = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      created: count,
      description: Type.String(),
      input_modalities: modalities,
      output_modalities: modalities,
      context_length: count,
      max_output_length: count,
      is_ready: Type.Boolean(),
      pricing: Type.Object({ prompt: usd, completion: usd, image: usd, request: usd, input_cache_read: usd }),
    }),
  ),
})
export type Marketplace = Static<typeof Marketplace>
