import { decideReceipt } from './settlement.ts'

export const releaseReceipt = decideReceipt(
  'release',
  'accepted',
  'Release a receipt that is on hold: its node is paid',
  {
    asks: 'Release the receipt? Its node is paid for what it has claimed, and this cannot be undone.',
    verb: 'Release',
    title: 'Release this receipt',
    about: 'Its node is paid for what it has reported. This cannot be undone.',
    confirm: 'release',
    done: 'The receipt is released: its node is paid.',
  },
)
