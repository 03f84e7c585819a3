import { PayoutBatch } from '../../protocol/wire/money/money.ts'
import { defineAction } from '../frame/define-action.ts'
import { settles, tag } from './settlement.ts'

export const submitBatch = defineAction({
  name: 'payout.batch.submit',
  at: 'POST /v1/admin/payout-batches/:batch_id/submit',
  policy: settles('payout_batch'),
  summary: 'Continue with a batch at once',
  tag,
  result: PayoutBatch,
  run: async ({ gateway, views, audit, params }) =>
    views.adminBatchView(await gateway.settlement.by(audit).submit(params.batch_id)),
})
