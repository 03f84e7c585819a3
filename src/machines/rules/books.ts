import type { ApprovalRule, CountedKind, LoggedRule, OwnRule } from '../../protocol/money/kinds.ts'
import { balanceAccounts, equation, leftOn, workAccounts } from '../../protocol/money/moves.ts'

/** Sums of the whole books. */
export interface BookSums {
  readonly sums: Readonly<Record<CountedKind, bigint>>
  readonly balancesWei: bigint
  readonly payoutsWei: bigint
  readonly feesWei: bigint
  readonly reservedWei: bigint
  readonly openReservationsWei: bigint
  /** Of the balances, in leases of gateways, beside what is reserved; and what the leases have left of it. */
  readonly leasedWei: bigint
  readonly leasesWei: bigint
  /** Customers whose balance or reserve is not what their own entries add up to. */
  readonly customersOff: number
  /** Entries whose `_after` amounts do not follow from the entry before. */
  readonly entriesOff: number
}

/** By its name, whether the books obey it. */
const rules: Readonly<Record<string, (books: BookSums) => boolean>> = {
  [equation(balanceAccounts, ['balances'])]: ({ sums, balancesWei }) => leftOn(balanceAccounts, sums) === balancesWei,
  [equation(workAccounts, ['payouts', 'fees'])]: ({ sums, payoutsWei, feesWei }) =>
    leftOn(workAccounts, sums) === payoutsWei + feesWei,
  'reserved = open reservations': ({ reservedWei, openReservationsWei }) => reservedWei === openReservationsWei,
  'leased = leases': ({ leasedWei, leasesWei }) => leasedWei === leasesWei,
  'every balance is the sum of its entries': ({ customersOff }) => customersOff === 0,
  'every entry follows from the one before': ({ entriesOff }) => entriesOff === 0,
}
export const balanceRules: readonly string[] = Object.keys(rules)

/** The rules that the books break; none: they balance. */
export const brokenRules = (books: BookSums): readonly string[] =>
  Object.entries(rules).flatMap(([rule, holds]) => (holds(books) ? [] : [rule]))

/** What is recomputed row by row, and compared with the public log (§31); beside it the rules of the kinds of entries. */
type GeneralRule =
  | 'every receipt has the hash of its facts'
  | 'every receipt of a node bears its signature'
  | 'the receipts without one are as the cutoff in the log holds them'
  | 'the log says once until when it took receipts without a mark'
  | 'every receipt in the log is there'
  | 'every receipt is in the log'
  | 'every receipt is there once'
  | 'every payout is for the node of its receipt'
  | 'every payee is the one of its earning'
  | "every node's statement of its payee is as the node signed it and the log holds it"
  | 'every payee is the one that its node stated'
  | 'the ledger is as the log holds it'
  | 'every entry of a reservation is there once'
  | 'every group of charges adds up'
  | 'every share of a group is the payout that was made of it'
  | 'every batch is the sum of its payouts'
  | 'every batch is as the log holds it'
  | 'every settled batch stands on the chain where the log holds it'
  | 'every payout is on hold as its receipt is'
  | 'every payout on hold was so when it was earned'
  | 'every reservation has settled what was debited'
  | 'every receipt was written when it was issued'
  | 'every debit is what its price makes of its tokens'
  | 'every price is the one of the catalogue when the work was quoted'
  | 'every price of a receipt bears the mark of the process that billed it'
  | 'every customer and its keys are as their last event made them'
  | 'the catalogue is as its last event made it'
  | 'every node without an agent is paid as its last event says'
  | 'every role token bears the mark of the gateway that made it'
  | 'every named token is as its last event made it'
  | "every end of the audit's chains leads on from the log"
  | 'the log is the tree of its checkpoint'
  | 'the log leads on from what was seen before'
export type RowRule = GeneralRule | OwnRule | ApprovalRule | LoggedRule

/** One row that breaks a rule; `subject` names it to an operator. */
export interface RowFault {
  readonly rule: RowRule
  readonly subject: string
}
