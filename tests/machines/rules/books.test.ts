import { expect, test } from 'bun:test'
import { type BalanceRule, balanceRules, brokenRules } from '../../../src/machines/rules/books.ts'

/** 100 came in, and 7 of them are back: 40 were debited and stand as 30 for nodes, 3 in fees, and the 7; 5 are set aside. */
const books = {
  creditsWei: 100n,
  balancesWei: 67n,
  debitsWei: 40n,
  refundsWei: 7n,
  payoutsWei: 30n,
  feesWei: 3n,
  reservedWei: 5n,
  openReservationsWei: 5n,
  customersOff: 0,
  entriesOff: 0,
}

test('§13: books that balance break no rule', () => {
  expect(brokenRules(books)).toEqual([])
})

test.each<readonly [keyof typeof books, readonly BalanceRule[]]>([
  ['creditsWei', ['credits + refunds = balances + debits']],
  ['balancesWei', ['credits + refunds = balances + debits']],
  ['debitsWei', ['credits + refunds = balances + debits', 'debits = payouts + fees + refunds']],
  ['refundsWei', ['credits + refunds = balances + debits', 'debits = payouts + fees + refunds']],
  ['payoutsWei', ['debits = payouts + fees + refunds']],
  ['feesWei', ['debits = payouts + fees + refunds']],
  ['reservedWei', ['reserved = open reservations']],
  ['openReservationsWei', ['reserved = open reservations']],
  ['customersOff', ['every balance is the sum of its entries']],
  ['entriesOff', ['every entry follows from the one before']],
])('§13: one wei or row too many in %s breaks its rules, and no other', (name, rules) => {
  const value = books[name]
  expect(brokenRules({ ...books, [name]: typeof value === 'bigint' ? value + 1n : value + 1 })).toEqual([...rules])
  expect(brokenRules({ ...books, [name]: typeof value === 'bigint' ? value - 1n : value - 1 })).toEqual([...rules])
})

test('§13: each rule can break', () => {
  const all = Object.keys(books).flatMap((name) =>
    brokenRules({ ...books, [name]: typeof books[name as 'feesWei'] === 'bigint' ? 99n : 9 }),
  )
  expect(new Set(all)).toEqual(new Set(balanceRules))
})
