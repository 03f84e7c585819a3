import { WebhookDelivery, webhookStatuses } from '../../protocol/wire/inference/job.ts'
import { defineAction } from '../frame/define-action.ts'

export const redeliverWebhook = defineAction({
  name: 'webhook.redeliver',
  at: 'POST /v1/admin/webhooks/:webhook_id/redeliver',
  policy: { role: 'operator', category: 'private_jobs', target: 'webhook' },
  summary: 'Deliver an event again',
  description: 'Sends the same event id and body, with a new schedule of retries.',
  tag: 'Private jobs (extension)',
  result: WebhookDelivery,
  run: async ({ gateway, views, audit, role, params }) =>
    views.webhookDeliveryView(await gateway.webhooks.redeliver(params.webhook_id, audit), role),
  form: {
    on: 'webhook',
    when: { status: webhookStatuses },
    verb: 'Redeliver',
    title: 'Redeliver the webhook of {job_id}',
    about: 'The same event is posted again, with the same id, so that its receiver can know it.',
    confirm: 'redeliver',
    done: 'The webhook is delivered again.',
  },
})
