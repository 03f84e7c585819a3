import type { BalanceChange, BalanceChanged } from '../../actors/money/billing.ts'
import { parseWei } from '../../protocol/validation/parse-text.ts'
import { isoTime } from '../../time.ts'
import type { ActionContext } from '../frame/define-action.ts'

const replayedHeader = 'idempotent-replayed'
export const replays = 'A repeated request gets the same answer with `Idempotent-Replayed: true`.'

export const amountOperand = {
  name: 'AMOUNT_WEI',
  is: 'amount_wei',
  about: 'The amount in whole wei',
  form: ['^[0-9]+$', 'whole wei, without exponent, sign or point, like 1000000000000000000'],
} as const

export const balanceChange = (id: string | undefined, amountWei: string): BalanceChange => ({
  ...(id === undefined ? {} : { id }),
  amountWei: parseWei(amountWei, 'amount_wei') ?? 0n,
})

/** What an answer says of the entry beside whose it is, and the head of an answer that repeats an earlier one. */
export function changedBalance({ entry, replayed }: BalanceChanged, head: ActionContext['head']) {
  if (replayed) head.headers[replayedHeader] = 'true'
  return {
    amount_wei: entry.amountWei.toString(),
    balance_after_wei: entry.balanceAfterWei.toString(),
    reserved_after_wei: entry.reservedAfterWei.toString(),
    reason: entry.reason,
    created_at: isoTime(entry.createdAt),
  }
}

type Changed = Pick<
  ReturnType<typeof changedBalance>,
  'amount_wei' | 'balance_after_wei' | 'reserved_after_wei' | 'created_at'
>

/** The lines of a terminal, whose entry it is first. */
export const changedLines = (
  entry: readonly [string, string],
  made: Changed & { readonly customer_id: string },
  time: (instant: string) => string | null,
) =>
  [
    entry,
    ['Customer', made.customer_id],
    ['Amount', `${made.amount_wei} wei`],
    ['Balance', `${made.balance_after_wei} wei`],
    ['Reserved', `${made.reserved_after_wei} wei`],
    ['Made', time(made.created_at)],
  ] as const
