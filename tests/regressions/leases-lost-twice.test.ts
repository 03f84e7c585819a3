import { expect, test } from 'bun:test'
import { CustomerLease, type LeasedReservation } from '../../src/actors/money/customer-lease.ts'
import { addToLease, endStaleLeases, reserveLeased, takeLease } from '../../src/db/queries/money/leases.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { stopwatch } from '../support/run/stopwatch.ts'
import { waitFor } from '../support/run/wait-until.ts'

/**
 * Symptom: in some histories a part of a customer's money stayed leased until the lease ended by itself.
 * Cause: a lease ended while two charges under it were on their way. The first to hear so forgot it, the customer's next request began another one, and the
 * second charge had that one forgotten.
 * Fix: what a charge hears is about the lease that it was sent under.
 */
const database = await fixture(testDatabase({ connectionsMax: 2 }))

const ttlMs = 60_000
const amountWei = 10n

test('§13: a charge that hears of the end of its lease leaves the next lease alone', async () => {
  const { db, sql } = database
  const customerId = await fundedCustomer(database, 10_000n)
  const take = (ask: typeof takeLease) => (id: string, customer: string, wei: bigint) =>
    ask(db, { id, customerId: customer, wei, ttlMs })
  const lease = new CustomerLease(
    customerId,
    {
      take: take(takeLease),
      add: take(addToLease),
      makeRows: (of, rows) => reserveLeased(db, of, rows, ttlMs),
    },
    { from: 1, ttlMs, idleMs: ttlMs },
    createLog('silent', () => {}),
    stopwatch(),
  )
  lease.running = 1
  const reserved = () =>
    waitFor('a reservation under a lease', () => {
      const at = {
        id: newId('req'),
        customerId,
        amountWei,
        entry: newId('led'),
        lease: null,
        leaseId: '',
        leasePlace: -1,
      }
      const one: LeasedReservation = { ...at, reservedAtMs: 0 }
      return lease.reserve(one) ? one : null
    })
  const [first, second] = [await reserved(), await reserved()]
  const began = [lease.charges(), lease.charges()] as const
  await sql`update money_leases set ends_at = now() - interval '1 s'`
  expect(await endStaleLeases(db)).toBe(1)

  lease.charged(first, 'unknown', amountWei, began[0])
  const third = await reserved()
  expect(third.leaseId).not.toBe(first.leaseId)
  lease.charged(second, 'unknown', amountWei, began[1])
  expect(third.lease).toBe(lease)

  await lease.end()
  const [row] =
    await sql`select leased_wei::int as leased, reserved_wei::int as reserved from customers where customer_id = ${customerId}`
  expect([row?.leased, row?.reserved, await sql`select 1 from money_leases`]).toMatchObject([0, Number(amountWei), []])
})
