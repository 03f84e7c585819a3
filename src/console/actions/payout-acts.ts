import type { PayoutBatchCreated } from '../../protocol/wire/money/money.ts'
import { count } from '../parts/format.ts'
import { amountText } from '../parts/wei.tsx'
import { callAdmin } from '../state/api.ts'
import type { Act } from './act.ts'
import { actOn } from './action-acts.ts'

const path = '/v1/admin/payout-batches'

/** With a look before it is done: how many payouts there are, and how much they come to. */
export const payOut = (): Act => ({
  ...actOn('payout.batch.create', {}),
  check: async (_, signal) => {
    const body = { dry_run: true, reason: 'look before a payout' }
    const answer = await callAdmin(path, { method: 'POST', body, signal })
    const {
      status,
      payout_count: payouts,
      total_amount_wei: wei,
      without_address,
    } = (await answer.json()) as PayoutBatchCreated
    const left =
      without_address === 0 ? '' : ` ${count(without_address)} more stay, because their nodes have no address.`
    return status === 'nothing_pending'
      ? { good: false, says: `No payout is pending.${left}` }
      : {
          good: true,
          says: `${count(payouts)} ${payouts === 1 ? 'payout' : 'payouts'} of ${amountText(wei)} in all.${left}`,
        }
  },
})
