import { decideReceipt } from './settlement.ts'

export const releaseReceipt = decideReceipt(
  'release',
  'accepted',
  'Release a receipt that is on hold: its node is paid',
)
