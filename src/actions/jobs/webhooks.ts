import { WebhookList, webhookStatuses } from '../../protocol/wire/inference/job.ts'
import { customerFilter, limitOf, oneOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'
import { refuseOwners } from './owners.ts'

export const webhookList = defineList({
  name: 'webhook.list',
  at: 'GET /v1/admin/webhooks',
  role: 'viewer',
  category: 'private_jobs',
  summary: 'List webhooks, newest first',
  tag: 'Private jobs (extension)',
  query: { limit: limitOf(100, 1_000), status: oneOf(webhookStatuses), customer_id: customerFilter },
  result: WebhookList,
  rows: 'webhooks',
  read: async ({ gateway, views, role, query: { limit, status, customer_id: customerId } }) => {
    refuseOwners(role, customerId)
    return (await gateway.webhooks.list({ status, customerId, limit })).map((row) =>
      views.webhookDeliveryView(row, role),
    )
  },
})
