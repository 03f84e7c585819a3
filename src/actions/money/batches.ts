import { PayoutBatchList } from '../../protocol/wire/money/money.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const batchList = defineList({
  name: 'payout.batch.list',
  at: 'GET /v1/admin/payout-batches',
  role: 'viewer',
  category: 'settlement',
  summary: 'List payout batches, newest first',
  tag: 'Money (extension)',
  query: { limit: limitOf(100, 1_000) },
  result: PayoutBatchList,
  rows: 'batches',
  beside: ({ settlement }) => ({ settlement_configured: settlement.configured }),
  read: ({ gateway, views, query: { limit } }) => views.adminBatches(gateway, limit),
  command: {
    words: 'payouts list',
    after: '',
    columns: [
      ['BATCH', (batch) => batch.batch_id],
      ['STATUS', (batch) => (batch.held ? `${batch.status}, held` : batch.status)],
      ['PAYOUTS', (batch) => batch.payout_count],
      ['WEI', (batch) => batch.total_amount_wei],
      ['TRANSACTION', (batch) => batch.submitted_tx_hash],
      ['CREATED', (batch, print) => print.time(batch.created_at)],
    ],
    empty: 'There are no batches.',
    note: ({ settlement_configured: configured }) =>
      configured ? '' : '\nNo blockchain is configured, so batches stay as they are.\n',
  },
})
