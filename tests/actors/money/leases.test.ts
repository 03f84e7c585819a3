import { afterAll, expect, test } from 'bun:test'
import { Ledger, type LedgerOptions } from '../../../src/actors/money/ledger.ts'
import type { Reservation } from '../../../src/actors/money/reservation.ts'
import { openDatabase } from '../../../src/db/client.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { entriesOf, expectSound, groupsOf } from '../../support/money/groups.ts'
import { chargeFor, fundedCustomer } from '../../support/money/ledger.ts'
import { testMacs } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { lockWaits } from '../../support/run/lock-waits.ts'
import { testDatabase } from '../../support/run/postgres.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const credit = 1_000_000n
const quote = 100n

const opened: ReturnType<typeof openDatabase>[] = []
const ledgers: Ledger[] = []
let said = ''
const log = createLog('warn', (text) => {
  said += text
})
afterAll(async () => {
  await Promise.all(ledgers.map((ledger) => ledger.stop()))
  await Promise.all(opened.map((own) => own.close()))
  await expectSound(database)
  log.flush()
  // SQLSTATE of a deadlock.
  expect(said).not.toContain('40P01')
})
const database = await fixture(testDatabase({ connectionsMax: 6 }))

/** A gateway with connections of its own. */
async function gateway(options: Partial<LedgerOptions> = {}): Promise<Ledger> {
  const own = openDatabase({ url: database.url, connectionsMax: 4 })
  opened.push(own)
  const ledger = new Ledger({ macs: testMacs, ...own, log, ...options })
  ledgers.push(ledger)
  await ledger.start()
  return ledger
}

const asked = (customerId: string, amountWei = quote) => ({ id: newId('req'), customerId, amountWei })
const pay = async (ledger: Ledger, customerId: string, wei = 60n) =>
  ledger.settle(await ledger.reserve(asked(customerId)), chargeFor(customerId, wei))

async function leasesOf(customerId: string) {
  return database.sql<{ id: string; left: string }[]>`
    select lease_id as id, left_wei::text as left from money_leases where customer_id = ${customerId}`
}

async function leasedGroups(customerId: string) {
  const [row] = await database.sql<{ count: number }[]>`
    select count(reserve_seq)::int as count from charge_groups where customer_id = ${customerId}`
  return row?.count ?? 0
}

async function rowsOf(customerId: string) {
  return database.sql<{ id: string }[]>`select reservation_id as id from reservations where customer_id = ${customerId}`
}

async function amounts(customerId: string) {
  const [row] = await database.sql<{ balance: string; reserved: string; leased: string }[]>`
    select balance_wei::text as balance, reserved_wei::text as reserved, leased_wei::text as leased
    from customers where customer_id = ${customerId}`
  return row
}

/** So many requests that run, enough that money is leased, and the lease. */
async function leased(ledger: Ledger, customerId: string, running = 9) {
  const held = await Promise.all(Array.from({ length: running }, () => ledger.reserve(asked(customerId))))
  await waitUntil('a lease', async () => (await leasesOf(customerId)).length > 0)
  return { held, settle: () => Promise.all(held.map((one) => ledger.settle(one, chargeFor(customerId, 60n)))) }
}

/** Reserved in memory: no row has it. */
async function inMemory(ledger: Ledger, customerId: string, amountWei = quote): Promise<Reservation> {
  const reservation = await ledger.reserve(asked(customerId, amountWei))
  expect((await rowsOf(customerId)).map(({ id }) => id)).not.toContain(reservation.id)
  return reservation
}

test('§13: money is leased from the ninth paid request at once on, and each charge has the entries that it has without a lease', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  const eight = await Promise.all(Array.from({ length: 8 }, () => ledger.reserve(asked(id))))
  expect(await leasesOf(id)).toHaveLength(0)
  const { settle } = await leased(ledger, id, 1)
  // Sixteen times the quote.
  expect(await leasesOf(id)).toMatchObject([{ left: String(16n * quote) }])
  const last = await inMemory(ledger, id)
  const charge = chargeFor(id, 30n)
  expect(await ledger.settle(last, charge)).toEqual({ outcome: 'settled', chargedWei: 30n })
  const [before, reserve, debit, release] = (await entriesOf(database, id)).slice(-4)
  const same = { reservationId: last.id, balanceAfterWei: credit - 30n }
  const reserved = before?.reservedAfterWei ?? -1n
  expect([reserve, debit, release]).toMatchObject([
    { ...same, kind: 'reserve', amountWei: quote, balanceAfterWei: credit, reservedAfterWei: reserved + quote },
    { ...same, kind: 'debit', amountWei: 30n, receiptHash: charge.receipt.hash, reservedAfterWei: reserved + 70n },
    { ...same, kind: 'release', amountWei: 70n, receiptHash: charge.receipt.hash, reservedAfterWei: reserved },
  ])
  expect(reserve?.receiptHash).toBeNull()
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 1 }])
  await settle()
  for (const one of eight) await ledger.settle(one, chargeFor(id, 1n))
})

test('§13: what an account has reserved is what its requests have, on each gateway, and no lease', async () => {
  const [one, other, id] = [await gateway(), await gateway(), await fundedCustomer(database, credit)]
  const { held } = await leased(one, id)
  const more = await Promise.all([inMemory(one, id), inMemory(one, id)])
  const open = BigInt(held.length + more.length) * quote
  for (const ledger of [other, one])
    expect(await ledger.account(id)).toMatchObject({ balanceWei: credit, reservedWei: open, leasedWei: 0n })
  // It is charged all the same.
  for (const reservation of [...held, ...more])
    expect((await one.settle(reservation, chargeFor(id, 60n))).outcome).toBe('settled')
  expect(await one.account(id)).toMatchObject({ balanceWei: credit - 11n * 60n, reservedWei: 0n, leasedWei: 0n })
})

test('§13: the last wei can be spent on any gateway while another one leases', async () => {
  const [one, other, id] = [await gateway(), await gateway(), await fundedCustomer(database, 10_000n)]
  const { held } = await leased(one, id)
  const left = 10_000n - BigInt(held.length) * quote
  const last = await other.reserve(asked(id, left))
  await expect(other.reserve(asked(id, 1n))).rejects.toMatchObject({ code: 'insufficient_funds' })
  await expect(one.reserve(asked(id, 1n))).rejects.toMatchObject({ code: 'insufficient_funds' })
  expect(await other.settle(last, chargeFor(id, left))).toEqual({ outcome: 'settled', chargedWei: left })
  for (const reservation of held) await one.settle(reservation, chargeFor(id, quote))
  expect(await amounts(id)).toEqual({ balance: '0', reserved: '0', leased: '0' })
})

test('§13: a lease that nobody needs is given back, and what still runs is a row', async () => {
  const [ledger, id] = [await gateway({ leases: { idleMs: 1 } }), await fundedCustomer(database, credit)]
  const { held } = await leased(ledger, id)
  await waitUntil('the end of the lease', async () => (await amounts(id))?.leased === '0')
  expect(await leasesOf(id)).toHaveLength(0)
  expect(await amounts(id)).toMatchObject({ reserved: String(BigInt(held.length) * quote) })
  for (const reservation of held) ledger.release(reservation)
  await waitUntil('the releases', async () => (await amounts(id))?.reserved === '0')
})

test('§13: a stop gives all leases back', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  const { settle } = await leased(ledger, id)
  await settle()
  await ledger.stop()
  expect(await amounts(id)).toEqual({ balance: String(credit - 9n * 60n), reserved: '0', leased: '0' })
})

test('§13: and waits for charges that wait for the end of a lease', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  const { settle } = await leased(ledger, id)
  await settle()
  const last = await inMemory(ledger, id)
  const [held, locked] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const lock = database.sql.begin(async (tx) => {
    await tx`select 1 from money_leases where customer_id = ${id} for update`
    held.resolve()
    await locked.promise
  })
  await held.promise
  const recalled = ledger.recall(id)
  await waitUntil('the lease is being ended', async () => (await lockWaits(database.sql)) > 0)
  const settled = ledger.settle(last, chargeFor(id, 60n))
  const stopped = ledger.stop()
  locked.resolve()
  await Promise.all([lock, recalled, stopped])
  expect(await amounts(id)).toEqual({ balance: String(credit - 10n * 60n), reserved: '0', leased: '0' })
  expect(await settled).toEqual({ outcome: 'settled', chargedWei: 60n })
})

test('§13: a gateway that is gone leaves its lease for its time, in which it counts as reserved; then all of it is free', async () => {
  const own = openDatabase({ url: database.url, connectionsMax: 4 })
  const [dead, other, id] = [
    new Ledger({ macs: testMacs, ...own, log: createLog('silent', () => {}) }),
    await gateway(),
    await fundedCustomer(database, credit),
  ]
  await leased(dead, id)
  await inMemory(dead, id)
  await own.sql.end({ timeout: 0 })
  expect(await other.account(id)).toMatchObject({ balanceWei: credit, reservedWei: 9n * quote, leasedWei: 16n * quote })
  await database.sql`update money_leases set ends_at = now() - interval '1 s' where customer_id = ${id}`
  expect(await other.account(id)).toMatchObject({ reservedWei: 9n * quote, leasedWei: 0n })
  await database.sql`update reservations set expires_at = now() - interval '1 s' where customer_id = ${id}`
  await other.sweep()
  expect(await amounts(id)).toEqual({ balance: String(credit), reserved: '0', leased: '0' })
  void dead.stop()
})

test('§13: a charge whose lease has ended stands if the balance covers it, and else is too late', async () => {
  const [one, other, id] = [await gateway(), await gateway(), await fundedCustomer(database, 10_000n)]
  const { settle } = await leased(one, id)
  await settle()
  const [covered, late] = [await inMemory(one, id), await inMemory(one, id)]
  const end = async () => {
    await database.sql`update money_leases set ends_at = now() - interval '1 s' where customer_id = ${id}`
    await other.sweep()
  }
  await end()
  expect(await one.settle(covered, chargeFor(id, 60n))).toEqual({ outcome: 'settled', chargedWei: 60n })
  const rest = (await other.account(id))?.balanceWei ?? 0n
  expect(rest).toBe(10_000n - 10n * 60n)
  const all = await other.reserve(asked(id, rest))
  const charge = chargeFor(id, 60n)
  expect(await one.settle(late, charge)).toEqual({ outcome: 'closed', chargedWei: 0n })
  const [receipt] = await database.sql`select billed from receipts where receipt_hash = ${charge.receipt.hash}`
  expect(receipt).toEqual({ billed: false })
  await other.settle(all, chargeFor(id, rest))
  expect(await amounts(id)).toEqual({ balance: '0', reserved: '0', leased: '0' })
})

test('§13: a lease that the database has smaller than its gateway believes ends, and its work is charged once', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  const { settle } = await leased(ledger, id)
  const held = await Promise.all([inMemory(ledger, id), inMemory(ledger, id), inMemory(ledger, id)])
  // A standby that was behind has taken over.
  await database.sql`update customers set leased_wei = 70 where customer_id = ${id}`
  await database.sql`update money_leases set left_wei = 70 where customer_id = ${id}`
  const settled = await Promise.all(held.map((one) => ledger.settle(one, chargeFor(id, 60n))))
  expect(settled).toEqual(held.map(() => ({ outcome: 'settled', chargedWei: 60n })))
  await settle()
  expect(await amounts(id)).toMatchObject({ balance: String(credit - 12n * 60n), reserved: '0' })
})

test('§13: what may be given back, what has a key, and what costs nothing is a row', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  const { settle } = await leased(ledger, id)
  const keyed = await ledger.reserve(asked(id), { asRow: true })
  expect((await rowsOf(id)).map((row) => row.id)).toContain(keyed.id)
  const [held, free] = [await inMemory(ledger, id), await inMemory(ledger, id)]
  const charge = chargeFor(id, 60n)
  await ledger.settle(held, { ...charge, receipt: { ...charge.receipt, status: 'held' } })
  expect(await ledger.settle(free, chargeFor(id, 0n))).toEqual({ outcome: 'settled', chargedWei: 0n })
  const rows = (await rowsOf(id)).map((row) => row.id)
  expect(rows).toEqual(expect.arrayContaining([held.id, free.id]))
  const [share] = await database.sql`select held from payouts where receipt_hash = ${charge.receipt.hash}`
  expect(share).toEqual({ held: true })
  await ledger.settle(keyed, chargeFor(id, 60n))
  await settle()
})

test('§13: no money is leased before the hour after an upgrade is over', async () => {
  const [ledger, id] = [await gateway(), await fundedCustomer(database, credit)]
  await database.sql`update money_lease_start set begins_at = now() + interval '1 hour'`
  const before = await Promise.all(Array.from({ length: 32 }, () => pay(ledger, id)))
  expect(before).toHaveLength(32)
  expect(await groupsOf(database, id)).not.toEqual([])
  expect(await leasedGroups(id)).toBe(0)
  expect(await leasesOf(id)).toHaveLength(0)
  await database.sql`update money_lease_start set begins_at = 'epoch'`
})

test('§13: two gateways pay for six customers at once while both are read and swept: every wei is where it belongs', async () => {
  const both = [await gateway({ leases: { from: 2 } }), await gateway({ leases: { from: 2 } })] as const
  const ids = await Promise.all(Array.from({ length: 6 }, () => fundedCustomer(database, credit)))
  let running = true
  const reader = async () => {
    for (let at = 0; running; at++) {
      const id = ids[at % ids.length] ?? ''
      await both[at % 2]?.account(id)
      await both[at % 2]?.sweep()
      // Else nothing is leased for 2 s.
      await database.sql`update customers set unleased_until = null where customer_id = ${id}`
    }
  }
  const reading = reader()
  const client = async (n: number) => {
    for (let at = 0; at < 20; at++) await pay(both[n % 2] as Ledger, ids[(n + at) % ids.length] ?? '')
  }
  await Promise.all(Array.from({ length: 36 }, (_, n) => client(n)))
  running = false
  await reading
  for (const id of ids)
    expect(await both[0].account(id)).toMatchObject({ balanceWei: credit - 120n * 60n, reservedWei: 0n, leasedWei: 0n })
  const groups = await Promise.all(ids.map(leasedGroups))
  expect(Math.max(...groups)).toBeGreaterThan(0)
})
