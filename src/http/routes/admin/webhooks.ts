import { WebhookList, webhookStatuses } from '../../../protocol/wire/inference/job.ts'
import { customerFilter, limitOf, oneOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { webhookDeliveryView } from '../../views/job.ts'
import { refuseOwners } from './commands.ts'

export const webhookList = report({
  action: 'webhook.list',
  tag: 'Private jobs (extension)',
  summary: 'List webhooks, newest first',
  query: { limit: limitOf(100, 1_000), status: oneOf(webhookStatuses), customer_id: customerFilter },
  response: WebhookList,
  read: async ({ gateway }, { role, query: { limit, status, customer_id: customerId }, nowMs }) => {
    refuseOwners(role, customerId)
    const found = await gateway.webhooks.list({ status, customerId, limit })
    return listOf(
      'webhook_list',
      'webhooks',
      found.map((row) => webhookDeliveryView(row, role)),
      nowMs,
    )
  },
})
