import { HeldReceiptList } from '../../protocol/wire/money/receipt.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const heldReceiptList = defineList({
  name: 'receipt.held.list',
  at: 'GET /v1/admin/held-receipts',
  role: 'viewer',
  category: 'settlement',
  summary:
    'List the receipts that are on hold, because their nodes claimed more tokens than they can have produced, newest first',
  tag: 'Money (extension)',
  query: { limit: limitOf(100, 1_000) },
  result: HeldReceiptList,
  rows: 'receipts',
  read: ({ gateway, views, role, query: { limit } }) => views.heldReceiptViews(gateway, limit, role),
  command: {
    words: 'payouts held',
    after: 'list',
    columns: [
      ['RECEIPT', (receipt) => receipt.receipt_hash],
      ['REQUEST', (receipt) => receipt.request_id],
      ['NODE', (receipt) => receipt.node_id],
      ['MODEL', (receipt) => receipt.model_id],
      ['TOKENS', (receipt) => `${receipt.prompt_tokens} + ${receipt.completion_tokens}`],
      ['CUSTOMER', (receipt) => receipt.customer_id],
      ['DEBIT, WEI', (receipt) => receipt.debit_wei],
      ['SINCE', (receipt, print) => print.time(receipt.held_since)],
    ],
    empty: 'No receipt is on hold.',
  },
})
