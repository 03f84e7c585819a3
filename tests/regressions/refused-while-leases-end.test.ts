import { afterAll, expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: of two requests of several calls that came together while another gateway leased the customer's money, the second was refused with
 * `insufficient_funds`, although the account covered it.
 * Cause: both had found too little. The second waited for the end of the leases behind the first, found none any more, and took that for a refusal. So
 * did one whose own wait ended the lease of a gateway that had died half a minute before.
 * Fix: each request that has waited for the end of leases looks at the account again, whatever was found.
 */
const database = await fixture(testDatabase({ connectionsMax: 4 }))
const opened = [1, 2].map(() => openDatabase({ url: database.url, connectionsMax: 4 }))
const [holder, other] = opened.map(
  (own) => new Ledger({ macs: testMacs, ...own, log: createLog('silent', () => {}), leases: { idleMs: 600_000 } }),
) as [Ledger, Ledger]
afterAll(async () => {
  for (const ledger of [holder, other]) await ledger.stop()
  for (const own of opened) await own.close()
})

test('§13: no request is refused for money that a lease had, where others wait for its end, too', async () => {
  holder.start()
  const customerId = await fundedCustomer(database, 4_000n)
  const nine = Array.from({ length: 9 }, () => holder.reserve({ id: newId('req'), customerId, amountWei: 100n }))
  await Promise.all(nine)
  await waitUntil('a lease', async () => {
    const [row] = await database.sql`select leased_wei > 0 as has from customers where customer_id = ${customerId}`
    return row?.has
  })
  const covered = await Promise.allSettled([1, 2, 3].map(() => other.refuseUncovered(customerId, 3_000n)))
  expect(covered.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
  await expect(other.refuseUncovered(customerId, 3_101n)).rejects.toMatchObject({ code: 'insufficient_funds' })
})

test('§13: nor for what the lease of a gateway that has died had until now', async () => {
  const customerId = await fundedCustomer(database, 1_000n)
  await database.sql`update customers set leased_wei = 1000 where customer_id = ${customerId}`
  await database.sql`insert into money_leases (lease_id, customer_id, left_wei, ends_at)
    values (${newId('mls')}, ${customerId}, 1000, now() - interval '1 s')`
  await other.refuseUncovered(customerId, 1_000n)
  await expect(other.refuseUncovered(customerId, 1_001n)).rejects.toMatchObject({ code: 'insufficient_funds' })
})
