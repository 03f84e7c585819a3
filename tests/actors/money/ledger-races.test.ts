import { expect, test } from 'bun:test'
import { Ledger } from '../../../src/actors/money/ledger.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { renewReservations } from '../../../src/db/queries/money/ledger.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { chargeFor, expectBooksBalance, fundedCustomer } from '../../support/money/ledger.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const credit = 1_000_000n
/** SQLSTATE. */
const deadlock = '40P01'

const faults: string[] = []
const log = createLog('warn', (text) => faults.push(text))
const database = await fixture(testDatabase({ connectionsMax: 8 }), ({ db }) => expectBooksBalance(db))
const other = await fixture(openDatabase({ url: database.url, connectionsMax: 8 }))
// Of one reservation that two make: what is under a lease is made by one alone.
const options = { macs: testMacs, log, leases: { from: Number.POSITIVE_INFINITY } }
/** Of two gateways on one database. */
const ledgers: readonly [Ledger, Ledger] = [
  new Ledger({ ...options, ...database }),
  new Ledger({ ...options, ...other }),
]

async function amounts(customerId: string) {
  const [row] = await database.sql<{ b: string; r: string }[]>`select balance_wei::text b, reserved_wei::text r
    from customers where customer_id = ${customerId}`
  return { balance: BigInt(row?.b ?? -1), reserved: BigInt(row?.r ?? -1) }
}

test('§13: two gateways charge the same work at once, each in the other order: once, and none waits for the other', async () => {
  const customers = await Promise.all(Array.from({ length: 6 }, () => fundedCustomer(database, credit)))
  const charged = new Map(customers.map((id) => [id, 0n]))
  for (let round = 0; round < 10; round++) {
    const wanted = Array.from({ length: 48 }, (_, n) => ({
      id: newId('req'),
      customerId: customers[(n + round) % customers.length] as string,
      amountWei: 100n,
    }))
    const reversed = wanted.toReversed()
    await Promise.all([
      ...wanted.slice(24).map((one) => ledgers[0].reserve(one)),
      ...reversed.slice(24).map((one) => ledgers[1].reserve(one)),
    ])
    const charges = new Map(wanted.map(({ id, customerId }) => [id, chargeFor(customerId, 60n)]))
    const settledBy = (ledger: Ledger, rows: typeof wanted) =>
      Promise.all(rows.map((one) => ledger.settle(one, charges.get(one.id) as ReturnType<typeof chargeFor>)))
    // Some are given up meanwhile.
    for (const one of wanted.slice(0, 8)) ledgers[round % 2]?.release(one)
    const [first, second] = await Promise.all([settledBy(ledgers[0], wanted), settledBy(ledgers[1], reversed)])
    // Whoever was first, both hear the same.
    expect(second.toReversed()).toEqual(first)
    for (const [at, { customerId }] of wanted.entries())
      charged.set(customerId, (charged.get(customerId) ?? 0n) + (first[at]?.chargedWei ?? 0n))
  }
  for (const ledger of ledgers) await ledger.stop()
  for (const [id, sum] of charged) expect(await amounts(id)).toEqual({ balance: credit - sum, reserved: 0n })
  // Of the given up ones none is charged if the release came first.
  const total = [...charged.values()].reduce((sum, wei) => sum + wei, 0n)
  expect(total).toBeGreaterThanOrEqual(10n * 40n * 60n)
  log.flush()
  expect(faults.filter((text) => text.includes(deadlock))).toEqual([])
  await expectBooksBalance(database.db)
})

test('§13: two gateways that make one reservation at once make it once', async () => {
  const customerId = await fundedCustomer(database, credit)
  const held = await Promise.all(
    Array.from({ length: 30 }, async () => {
      const wanted = { id: newId('req'), customerId, amountWei: 100n }
      const [first, second] = await Promise.all(ledgers.map((ledger) => ledger.reserve(wanted)))
      for (const made of [first, second]) expect(made).toMatchObject(wanted)
      return wanted
    }),
  )
  expect(await amounts(customerId)).toEqual({ balance: credit, reserved: 3_000n })
  for (const reservation of held) ledgers[0].release(reservation)
  await ledgers[0].stop()
  expect(await amounts(customerId)).toEqual({ balance: credit, reserved: 0n })
})

test('§13: a renewal waits for no reservation that is being closed', async () => {
  const customerId = await fundedCustomer(database, credit)
  const wanted = [newId('req'), newId('req')].map((id) => ({ id, customerId, amountWei: 100n }))
  for (const one of wanted) await ledgers[0].reserve(one)
  const [closing = '', running = ''] = wanted.map(({ id }) => id)
  const ends = async () => {
    const rows = await database.sql<{ id: string; ms: number }[]>`
      select reservation_id as id, extract(epoch from expires_at)::float8 * 1000 as ms
      from reservations where customer_id = ${customerId}`
    return new Map(rows.map(({ id, ms }) => [id, ms]))
  }
  const before = await ends()
  await other.sql.begin(async (tx) => {
    await tx`select 1 from reservations where reservation_id = ${closing} for update`
    await renewReservations(database.db, [closing, running], 3_600_000)
  })
  const after = await ends()
  expect(after.get(closing)).toBe(before.get(closing) ?? Number.NaN)
  expect(after.get(running)).toBeGreaterThan(before.get(running) ?? Number.NaN)
  await renewReservations(database.db, [closing, running], 3_600_000)
  expect((await ends()).get(closing)).toBeGreaterThan(before.get(closing) ?? Number.NaN)
  for (const one of wanted) ledgers[0].release(one)
  await ledgers[0].stop()
})
