import { PayoutProofList } from '../../protocol/wire/money/money.ts'
import { defineList } from '../frame/define-list.ts'

export const batchProofs = defineList({
  name: 'payout.batch.proofs',
  at: 'GET /v1/admin/payout-batches/:batch_id/proofs',
  role: 'viewer',
  category: 'settlement',
  summary: 'Proofs by which the nodes of a batch claim their payouts',
  tag: 'Money (extension)',
  query: {},
  result: PayoutProofList,
  rows: 'proofs',
  read: async ({ gateway: { settlement }, views, params: { batch_id: batchId } }) => {
    const batch = await settlement.batch(batchId)
    return (await settlement.proofs(batchId)).map((proof) => views.payoutProofView(batch, proof))
  },
  command: {
    words: 'payouts proofs',
    about: 'Print the proofs of a batch, with which its nodes claim their payouts. `verify payout` checks them',
    operands: [{ name: 'BATCH_ID', about: 'The batch id, as `payouts list` shows it' }],
    columns: [
      ['PAYOUT', (proof) => proof.entry_id],
      ['PAYEE', (proof) => proof.payee],
      ['WEI', (proof) => proof.amount_wei],
      ['LEAF', (proof) => proof.leaf],
    ],
    empty: 'None.',
  },
})
