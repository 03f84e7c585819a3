export const balanceRules = [
  'credits = balances + debits',
  'debits = payouts + fees',
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
  readonly payoutsWei: bigint
  readonly feesWei: bigint
  readonly reservedWei: bigint
  readonly openReservationsWei: bigint
  readonly customersOff: number
  readonly entriesOff: number
}): readonly BalanceRule[] {
  const holds: Readonly<Record<BalanceRule, boolean>> = {
    'credits = balances + debits': books.creditsWei === books.balancesWei + books.debitsWei,
    'debits = payouts + fees': books.debitsWei === books.payoutsWei + books.feesWei,
    'reserved = open reservations': books.reservedWei === books.openReservationsWei,
    'every balance is the sum of its entries': books.customersOff === 0,
    'every entry follows from the one before': books.entriesOff === 0,
  }
  return balanceRules.filter((rule) => !holds[rule])
}
