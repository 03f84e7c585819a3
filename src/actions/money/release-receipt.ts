import { decideReceipt } from './settlement.ts'

export const releaseReceipt = decideReceipt(
  'release',
  'accepted',
  'Release a receipt that is on hold: its node is paid',
  {
    verb: 'Release',
    title: 'Release this receipt',
    about: 'Its node is paid for what it has reported. This cannot be undone.',
    confirm: 'release',
    done: 'The receipt is released: its node is paid.',
  },
)
