import { Elysia } from 'elysia'
import { adminObject } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import { WebhookList, type WebhookStatus, webhookStatuses } from '../../../protocol/wire/inference/job.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, customerFilter, limitOf, oneOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { webhookDeliveryView } from '../../views/job.ts'

const tags = ['Private jobs (extension)']
const listQuery = { limit: limitOf(100, 1_000), status: oneOf(webhookStatuses), customer_id: customerFilter } as const

export const webhookRoutes = (context: HttpContext) => {
  const { webhooks } = context.gateway
  return new Elysia().use(admin(context)).get(
    '/v1/admin/webhooks',
    async ({ actor, query: { limit, status, customer_id } }) => {
      if (customer_id !== null && actor.role === 'viewer') {
        throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
      }
      const filter = { status: status as WebhookStatus | null, customerId: customer_id, limit }
      const found = (await webhooks.list(filter)).map((row) => webhookDeliveryView(row, actor.role))
      return {
        object: `${adminObject}webhook_list` as const,
        generated_at: isoTime(Date.now()),
        count: found.length,
        webhooks: found,
      }
    },
    {
      action: 'webhook.list',
      response: { 200: WebhookList },
      ...asks(listQuery),
      detail: describe({ summary: 'List webhooks, newest first', tags }),
    },
  )
}
