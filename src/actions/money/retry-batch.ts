import { PayoutBatch } from '../../protocol/wire/money/money.ts'
import { defineAction } from '../frame/define-action.ts'
import { settles, tag } from './settlement.ts'

export const retryBatch = defineAction({
  name: 'payout.batch.retry',
  at: 'POST /v1/admin/payout-batches/:batch_id/retry',
  policy: settles('payout_batch'),
  summary: 'Continue with a batch that is on hold',
  description: 'A batch is on hold after its transaction has reverted three times.',
  tag,
  result: PayoutBatch,
  run: async ({ gateway, views, audit, params }) =>
    views.adminBatchView(await gateway.settlement.by(audit).retry(params.batch_id)),
  form: {
    on: 'payout batch',
    when: { held: ['true'] },
    verb: 'Retry',
    title: 'Retry {batch_id}',
    about: 'A batch on hold goes to the chain once more. It pays once, whatever happened before.',
    confirm: 'retry',
    done: 'The batch is tried again.',
  },
})
