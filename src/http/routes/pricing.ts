import { Elysia } from 'elysia'
import { brand } from '../../brand.ts'
import { Pricing } from '../../protocol/wire/money/pricing.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe, type RouteTable } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'

const cache = 'public, max-age=60'
const privateJobsPath = '/v1/api/private-inference/jobs'
const basisPoints = 10_000

/** Endpoint 5. */
export const pricingRoutes = (context: HttpContext, table: () => RouteTable) =>
  new Elysia().use(publicReads(context, 'any')).get(
    '/v1/api/pricing',
    ({ set }) => {
      const { config } = context.gateway
      set.headers['cache-control'] = cache
      return {
        object: `${brand}.pricing` as const,
        generated_at: isoTime(Date.now()),
        currency: 'wei' as const,
        max_price_field: 'max_price_wei' as const,
        private_inference: {
          enabled: table().rows.some(({ path }) => path === privateJobsPath),
          policy_version: 'private_inference_v1' as const,
          quote: {
            unit: 'request' as const,
            base_price_wei: config.SVC_PRIVATE_INFERENCE_BASE_PRICE_WEI.toString(),
            prompt_token_price_wei: config.SVC_PRIVATE_INFERENCE_PROMPT_TOKEN_PRICE_WEI.toString(),
            completion_token_price_wei: config.SVC_PRIVATE_INFERENCE_COMPLETION_TOKEN_PRICE_WEI.toString(),
            min_price_wei: config.SVC_PRIVATE_INFERENCE_MIN_PRICE_WEI.toString(),
            max_price_wei: config.SVC_PRIVATE_INFERENCE_MAX_PRICE_WEI.toString(),
          },
          billing_policy: {
            own_machine: 'free' as const,
            reserve_on: 'dispatch' as const,
            settle_on: 'completed' as const,
            release_on: ['failed' as const, 'expired' as const, 'cancelled' as const],
          },
          node_payout: {
            node_share_bps: basisPoints - config.SVC_PROTOCOL_FEE_BPS,
            protocol_fee_bps: config.SVC_PROTOCOL_FEE_BPS,
            payout_currency: 'wei' as const,
            min_batch_wei: config.SVC_PAYOUT_BATCH_MIN_WEI.toString(),
          },
        },
      }
    },
    {
      response: { 200: Pricing },
      detail: { ...describe({ summary: 'Pricing policy', tags: ['Service'] }), security: [] },
    },
  )
