import { afterAll, expect, test } from 'bun:test'
import { Ledger } from '../../src/actors/money/ledger.ts'
import { openDatabase } from '../../src/db/client.ts'
import { listenTo } from '../../src/db/queries/change-feed.ts'
import { recallChannel } from '../../src/db/queries/money/leases.ts'
import { newId } from '../../src/ids.ts'
import { createLog } from '../../src/log.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { testMacs } from '../support/money/receipt-macs.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

/**
 * Symptom: for the 30 s for which the lease of a gateway that had died still stood, 200 requests at once of that customer, which its account did not
 * cover, kept the database at 4,300 questions a second, each a commit that all gateways hear, and everybody else's charges waited behind them. Reads of
 * the account did the same.
 * Cause: each request asked by itself, about 45 times in a second, whether the lease had ended.
 * Fix: one wait of a process for each customer, which all share that ask meanwhile.
 */
const database = await fixture(testDatabase({ connectionsMax: 6 }))
const own = openDatabase({ url: database.url, connectionsMax: 4 })
const ledger = new Ledger({ macs: testMacs, ...own, log: createLog('silent', () => {}) })
afterAll(async () => {
  await ledger.stop()
  await own.close()
})

/** A customer whose money is leased by a gateway that has just died. */
async function leasedOnce(): Promise<string> {
  const id = await fundedCustomer(database, 1_000n)
  await database.sql`update customers set leased_wei = 1000 where customer_id = ${id}`
  await database.sql`insert into money_leases (lease_id, customer_id, left_wei, ends_at)
    values (${newId('mls')}, ${id}, 1000, now() + interval '1 hour')`
  return id
}

const atOnce = 200
const many = <T>(ask: () => Promise<T>) => Promise.all(Array.from({ length: atOnce }, ask))

test('§13: requests and reads of one customer ask together whether a lease has ended', async () => {
  const [refused, read] = [await leasedOnce(), await leasedOnce()]
  const questions = new Map([refused, read].map((id) => [id, 0]))
  const unlisten = await listenTo(database.sql, recallChannel, (id) => {
    questions.set(id, (questions.get(id) ?? 0) + 1)
  })
  const reserved = many(async () => {
    const reservation = Promise.resolve(ledger.reserve({ id: newId('req'), customerId: refused, amountWei: 1n }))
    return reservation.then(
      () => 'reserved',
      ({ code }: { code: string }) => code,
    )
  })
  const accounts = many(() => ledger.account(read))
  expect(new Set(await reserved)).toEqual(new Set(['insufficient_funds']))
  expect(new Set((await accounts).map((row) => row?.leasedWei))).toEqual(new Set([1_000n]))
  await unlisten()
  for (const count of questions.values()) {
    expect(count).toBeGreaterThan(1)
    expect(count).toBeLessThan(atOnce)
  }
})
