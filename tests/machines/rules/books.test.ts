import { expect, test } from 'bun:test'
import { type BookSums, balanceRules, brokenRules } from '../../../src/machines/rules/books.ts'

/** 109 came in, 9 were taken back; 40 were debited and stand as 30 for nodes, 3 in fees, and 7 that were given back; 5 are set aside. */
const books: BookSums = {
  sums: { admin_credit: 109n, debit: 40n, refund: 7n, admin_debit: 9n },
  balancesWei: 67n,
  payoutsWei: 30n,
  feesWei: 3n,
  reservedWei: 5n,
  openReservationsWei: 5n,
  leasedWei: 8n,
  leasesWei: 8n,
  customersOff: 0,
  entriesOff: 0,
}
const [balances, work] = ['credits + refunds = balances + debits + admin debits', 'debits = payouts + fees + refunds']

test('§13: books that balance break no rule', () => {
  expect(brokenRules(books)).toEqual([])
})

type Figure = keyof BookSums['sums'] | Exclude<keyof BookSums, 'sums'>
/** The books with one figure that is off by so much. */
function off(name: Figure, by: number): BookSums {
  if (name in books.sums) {
    const sum = name as keyof BookSums['sums']
    return { ...books, sums: { ...books.sums, [sum]: books.sums[sum] + BigInt(by) } }
  }
  const value = books[name as Exclude<keyof BookSums, 'sums'>]
  return { ...books, [name]: typeof value === 'bigint' ? value + BigInt(by) : value + by }
}

const figures: readonly (readonly [Figure, readonly string[]])[] = [
  ['admin_credit', [balances]],
  ['balancesWei', [balances]],
  ['debit', [balances, work]],
  ['refund', [balances, work]],
  ['admin_debit', [balances]],
  ['payoutsWei', [work]],
  ['feesWei', [work]],
  ['reservedWei', ['reserved = open reservations']],
  ['openReservationsWei', ['reserved = open reservations']],
  ['leasedWei', ['leased = leases']],
  ['leasesWei', ['leased = leases']],
  ['customersOff', ['every balance is the sum of its entries']],
  ['entriesOff', ['every entry follows from the one before']],
]
test.each(figures)('§13: one wei or row too many in %s breaks its rules, and no other', (name, rules) => {
  expect(brokenRules(off(name, 1))).toEqual(rules)
  expect(brokenRules(off(name, -1))).toEqual(rules)
})

test('§13: each rule can break', () => {
  const all = figures.flatMap(([name]) => brokenRules(off(name, 1)))
  expect(new Set(all)).toEqual(new Set(balanceRules))
})
