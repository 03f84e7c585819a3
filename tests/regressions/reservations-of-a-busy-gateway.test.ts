import { afterAll, expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { expectBooksBalance, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: a gateway died with some thousands of paid requests open, and customers had their money back minutes after the 15 minutes.
 * Cause: a sweep released 500 reservations, and the next one came a minute later.
 * Fix: a sweep goes on until it finds no more.
 */
const count = 501
const database = await fixture(testDatabase())
const ledgerOf = () =>
  new Ledger({ macs: testMacs, ...database, log: createLog('silent', () => {}), leases: { from: count + 1 } })
const [dead, other] = [ledgerOf(), ledgerOf()]
afterAll(() => Promise.all([dead.stop(), other.stop()]))

test('§13: one sweep releases all that a dead gateway had reserved', async () => {
  const id = await fundedCustomer(database, 1_000_000n)
  const reserve = () => dead.reserve({ id: newId('req'), customerId: id, amountWei: 10n })
  await Promise.all(Array.from({ length: count }, reserve))
  await database.sql`update reservations set expires_at = now() - interval '1 s'`
  expect(await other.sweep()).toBe(count)
  expect(await other.account(id)).toMatchObject({ balanceWei: 1_000_000n, reservedWei: 0n })
  await expectBooksBalance(database.db)
})
