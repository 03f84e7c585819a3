export const balanceRules = [
  'credits + refunds = balances + debits',
  'debits = payouts + fees + refunds',
  'reserved = open reservations',
  'every balance is the sum of its entries',
  'every entry follows from the one before',
] as const
export type BalanceRule = (typeof balanceRules)[number]

/** The rules that the books break; none: they balance. */
export function brokenRules(books: {
  readonly creditsWei: bigint
  readonly balancesWei: bigint
  readonly debitsWei: bigint
  readonly refundsWei: bigint
  readonly payoutsWei: bigint
  readonly feesWei: bigint
  readonly reservedWei: bigint
  readonly openReservationsWei: bigint
  readonly customersOff: number
  readonly entriesOff: number
}): readonly BalanceRule[] {
  const holds: Readonly<Record<BalanceRule, boolean>> = {
    'credits + refunds = balances + debits':
      books.creditsWei + books.refundsWei === books.balancesWei + books.debitsWei,
    'debits = payouts + fees + refunds': books.debitsWei === books.payoutsWei + books.feesWei + books.refundsWei,
    'reserved = open reservations': books.reservedWei === books.openReservationsWei,
    'every balance is the sum of its entries': books.customersOff === 0,
    'every entry follows from the one before': books.entriesOff === 0,
  }
  return balanceRules.filter((rule) => !holds[rule])
}

/** Rules that are recomputed row by row, and compared with the public log (§31). */
export const rowRules = [
  'every receipt has the hash of its facts',
  'every receipt of a node bears its signature',
  'the receipts without one are as the cutoff in the log holds them',
  'every receipt in the log is there',
  'every receipt is in the log',
  'every receipt is there once',
  'every debit has its billed receipt',
  'every billed receipt has its debit',
  'every debit is its payout, its fee and its refund',
  'every refund is the debit of a rejected receipt',
  'every rejected receipt was given back',
  'every refund has its approval event',
  'every refund is as the log holds it',
  'every payout and fee has its debit',
  'every payout is for the node of its receipt',
  'every payee is the one of its earning',
  'every credit has its approval event',
  'every credit is as the log holds it',
  'the ledger is as the log holds it',
  'every batch is the sum of its payouts',
  'every batch is as the log holds it',
  "every end of the audit's chains leads on from the log",
  'the log is the tree of its checkpoint',
  'the log leads on from what was seen before',
] as const
export type RowRule = (typeof rowRules)[number]

/** One row that breaks a rule; `subject` names it to an operator. */
export interface RowFault {
  readonly rule: RowRule
  readonly subject: string
}
