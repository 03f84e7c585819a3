import { decideReceipt } from './settlement.ts'

export const rejectReceipt = decideReceipt(
  'reject',
  'rejected',
  'Reject a receipt that is on hold: its node is never paid, and its customer has the debit back',
  {
    asks: 'Reject the receipt? Its node is never paid, its customer has the debit back, and this cannot be undone.',
    verb: 'Reject and refund',
    title: 'Reject this receipt',
    about: 'Its node is never paid for this request, and its customer gets back what was taken. This cannot be undone.',
    confirm: 'reject',
    destroys: true,
    done: 'The receipt is rejected, and its customer has the debit back.',
  },
)
