import { Elysia } from 'elysia'
import { WebhookKeys } from '../../protocol/wire/inference/job.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'

const keysCache = 'public, max-age=300'

/** What receivers check the `v1a` signatures of webhooks with (Standard Webhooks, §11). */
export const webhookKeyRoutes = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/.well-known/webhook-keys.json',
    ({ set }) => {
      set.headers['cache-control'] = keysCache
      return { keys: [...context.gateway.webhookKeys] }
    },
    {
      response: { 200: WebhookKeys },
      detail: {
        ...describe({
          summary: 'Public keys of webhook signatures',
          description:
            'Standard Webhooks, `v1a`: Ed25519 over `<webhook-id>.<webhook-timestamp>.<body>`. One key signs for all customers: a receiver must check `data.customer_id`.',
          tags: ['Extensions'],
        }),
        security: [],
      },
    },
  )
