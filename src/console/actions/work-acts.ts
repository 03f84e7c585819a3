import type { Act } from './act.ts'

/** Acts on work that goes on by itself: jobs, webhooks, payouts. None can be undone, so each is typed. */
export const cancelJob = ({ command_id, job_id }: { readonly command_id: string; readonly job_id: string }): Act => ({
  actions: ['command.cancel'],
  verb: 'Cancel job',
  title: `Cancel ${job_id}`,
  about: 'The node stops working on it, and its customer gets no answer.',
  confirm: 'cancel',
  run: (_, send) =>
    send({ action: 'command.cancel', method: 'POST', path: `/v1/admin/commands/${command_id}/cancel`, body: {} }),
  done: 'The job is being cancelled.',
})

export const redeliver = ({ webhook_id, job_id }: { readonly webhook_id: string; readonly job_id: string }): Act => ({
  actions: ['webhook.redeliver'],
  verb: 'Redeliver',
  title: `Redeliver the webhook of ${job_id}`,
  about: 'The same event is posted again, with the same id, so that its receiver can know it.',
  confirm: 'redeliver',
  run: (_, send) =>
    send({ action: 'webhook.redeliver', method: 'POST', path: `/v1/admin/webhooks/${webhook_id}/redeliver`, body: {} }),
  done: 'The webhook is delivered again.',
})

export const retryBatch = ({ batch_id }: { readonly batch_id: string }): Act => ({
  actions: ['payout.batch.retry'],
  verb: 'Retry',
  title: `Retry ${batch_id}`,
  about: 'A batch on hold goes to the chain once more. It pays once, whatever happened before.',
  confirm: 'retry',
  run: (_, send) =>
    send({
      action: 'payout.batch.retry',
      method: 'POST',
      path: `/v1/admin/payout-batches/${batch_id}/retry`,
      body: {},
    }),
  done: 'The batch is tried again.',
})
