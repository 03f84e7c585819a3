import { decideReceipt } from './settlement.ts'

export const rejectReceipt = decideReceipt(
  'reject',
  'rejected',
  'Reject a receipt that is on hold: its node is never paid, and its customer has the debit back',
)
