import { expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'

import { chargeFor, expectBooksBalance, fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { scoped } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: paid requests were refused with 503 while a newer gateway migrated the tables under load.
 * Cause: a migration and the statement that reserves for a group of requests waited for each other, PostgreSQL ended the statement, and all of its
 * requests were refused, as if nothing were known of it.
 * Fix: what PostgreSQL has taken back is reserved anew.
 */
test('§13: a reserve that PostgreSQL ends for a deadlock with a migration is made when that is over', async () => {
  const database = await testDatabase({ connectionsMax: 4 })
  const { sql } = database
  // Each side looks for a deadlock once, after this wait: the reserve does so first, and after the migration has asked for its second lock.
  await sql.unsafe(`alter database ${new URL(database.url).pathname.slice(1)} set deadlock_timeout = '3s'`)
  await using own = await scoped(openDatabase({ url: database.url, connectionsMax: 2 }))
  const { db } = own
  const ledger = new Ledger({ ...own, macs: testMacs, log: createLog('silent', () => {}) })
  try {
    const customerId = await fundedCustomer(database, 100n)
    const reserving = await sql.begin(async (migration) => {
      await migration`set local deadlock_timeout = '60s'`
      await migration`lock table customers in access exclusive mode`
      const reserved = [60n, 30n].map((amountWei) => ledger.reserve({ id: newId('req'), customerId, amountWei }))
      const settled = Promise.allSettled(reserved)
      await waitUntil('the reserve waits for the migration', async () => (await lockWaits(sql)) > 0)
      // Granted only because the reserve is ended.
      await migration`lock table ledger_entries in access exclusive mode`
      return { settled }
    })
    const outcomes = await reserving.settled
    expect(outcomes.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
    for (const outcome of outcomes) {
      if (outcome.status === 'fulfilled') await ledger.settle(outcome.value, chargeFor(customerId, 10n))
    }
    const [row] = await sql`select balance_wei::int as balance, reserved_wei::int as reserved from customers
      where customer_id = ${customerId}`
    expect(row).toEqual({ balance: 80, reserved: 0 })
    await expectBooksBalance(db)
  } finally {
    await ledger.stop()
    await database.drop()
  }
})
