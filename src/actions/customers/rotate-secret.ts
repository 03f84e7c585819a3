import { WebhookSecret } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { customerOperand, customerPolicy, tag } from './customer.ts'

export const rotateWebhookSecret = defineAction({
  name: 'customer.webhook_secret.rotate',
  at: 'POST /v1/admin/customers/:customer_id/webhook-secret',
  policy: customerPolicy,
  summary: 'Replace the webhook secret',
  tag,
  result: WebhookSecret,
  statuses: [201],
  run: async ({ gateway, audit, params }) => {
    const { customer, webhookSecret } = await gateway.accounts.by(audit).rotateWebhookSecret(params.customer_id)
    return { customer_id: customer.customerId, webhook_secret: webhookSecret }
  },
  command: {
    words: 'customers webhook-secret',
    about: 'Replace the webhook secret. The old secret keeps signing for 24 hours',
    operands: [customerOperand],
    prints: (made, print) => print.once('Webhook secret', made.webhook_secret),
  },
})
