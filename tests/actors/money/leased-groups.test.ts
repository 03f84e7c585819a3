import { expect, test } from 'bun:test'
import { openDatabase } from '../../../src/db/client.ts'
import {
  addToLease,
  endStaleLeases,
  recallLeases,
  reserveLeased,
  takeLease,
} from '../../../src/db/queries/money/leases.ts'
import { newId } from '../../../src/ids.ts'
import { entriesOf, expectSound, groupsOf } from '../../support/money/groups.ts'
import { LeasedCalls, leaseOf as takenLease, leasedWork as work } from '../../support/money/leased.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const credit = 10_000n
const ttlMs = 60_000
const database = await fixture(testDatabase({ connectionsMax: 4 }), expectSound)
const calls = new LeasedCalls(database)

const send: LeasedCalls['send'] = (...call) => calls.send(...call)
const leaseOf = (customerId: string, wei: bigint) => takenLease(database, customerId, wei)

async function amounts(customerId: string) {
  const [row] = await database.sql`select balance_wei::int as balance, reserved_wei::int as reserved,
    leased_wei::int as leased from customers where customer_id = ${customerId}`
  return row
}

test('§13: charges under leases that are sent again, in any composition, are charged once', async () => {
  const [ada, bob] = [await fundedCustomer(database, credit), await fundedCustomer(database, credit)]
  const [ofAda, ofBob] = [await leaseOf(ada, 1_000n), await leaseOf(bob, 1_000n)]
  const [a, b, c] = [work(ada, ofAda), work(ada, ofAda), work(ada, ofAda)]
  const [d, gone] = [work(bob, ofBob), work(bob, newId('mls'))]
  expect(await send([d, a, b])).toEqual(['settled', 'settled', 'settled'])
  expect(await send([b, a, d])).toEqual(['settled', 'settled', 'settled'])
  expect(await send([gone, c, b])).toEqual(['unknown', 'again', 'settled'])
  expect(await amounts(ada)).toEqual({ balance: 9_880, reserved: 0, leased: 880 })
  expect(await send([c])).toEqual(['settled'])
  expect(await amounts(ada)).toEqual({ balance: 9_820, reserved: 0, leased: 820 })
  expect(await amounts(bob)).toEqual({ balance: 9_940, reserved: 0, leased: 940 })
  expect((await groupsOf(database, ada)).map(({ rows }) => rows)).toEqual([2, 1])
  const kinds = (await entriesOf(database, ada)).map(({ kind }) => kind)
  expect(kinds).toEqual(['admin_credit', ...[1, 2, 3].flatMap(() => ['reserve', 'debit', 'release'])] as typeof kinds)
})

test('§13: a lease that has less left than what was charged of it before goes on when that is sent again', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(id, 200n)
  const [a, b, c] = [work(id, lease), work(id, lease), work(id, lease)]
  expect(await send([a, b])).toEqual(['settled', 'settled'])
  // Of an answer that was lost.
  expect(await send([a, b])).toEqual(['settled', 'settled'])
  expect(await amounts(id)).toEqual({ balance: 9_880, reserved: 0, leased: 80 })
  expect(await send([a, c])).toEqual(['settled', 'again'])
  expect(await send([c])).toEqual(['settled'])
  expect(await amounts(id)).toEqual({ balance: 9_820, reserved: 0, leased: 20 })
  expect(await send([work(id, lease)])).toEqual(['unknown'])
  expect(await amounts(id)).toEqual({ balance: 9_820, reserved: 0, leased: 0 })
})

test('§13: a charge that is sent again and again while the database is away keeps each group in which it was sent once', async () => {
  const ada = await fundedCustomer(database, credit)
  const lease = await leaseOf(ada, 1_000n)
  const [a, b] = [work(ada, lease), work(ada, lease)]
  const away = openDatabase({ url: database.url, connectionsMax: 1 })
  await away.close()
  for (const group of [
    [a, b],
    [a, b],
    [b, a],
    [a, b],
  ])
    await expect(new LeasedCalls(away).send(group)).rejects.toThrow()
  expect([a.sentIn, b.sentIn]).toEqual([0, 1].map(() => [a.row.debit, b.row.debit]))
  expect(await send([b, a])).toEqual(['settled', 'settled'])
  expect(await amounts(ada)).toEqual({ balance: 9_880, reserved: 0, leased: 880 })
})

test('§13: of charges of several leases and customers in one call each entry has the balance after it', async () => {
  const [ada, bob] = [await fundedCustomer(database, credit), await fundedCustomer(database, credit)]
  const [first, second, ofBob] = [await leaseOf(ada, 1_000n), await leaseOf(ada, 500n), await leaseOf(bob, 300n)]
  const sent = [work(ada, second), work(bob, ofBob), work(ada, first), work(ada, second), work(ada, first)]
  expect(await send(sent)).toEqual(sent.map(() => 'settled'))
  expect(await amounts(ada)).toEqual({ balance: 9_760, reserved: 0, leased: 1_260 })
  expect(await amounts(bob)).toEqual({ balance: 9_940, reserved: 0, leased: 240 })
  expect((await groupsOf(database, ada)).map(({ rows }) => rows)).toEqual([2, 2])
  for (const [id, count] of [
    [ada, 4],
    [bob, 1],
  ] as const) {
    const entries = await entriesOf(database, id)
    const seen = entries.map((entry) => [String(entry.kind), entry.balanceAfterWei, entry.reservedAfterWei])
    const expected = Array.from({ length: count }, (_, at) => credit - 60n * BigInt(at)).flatMap((balance) => [
      ['reserve', balance, 100n],
      ['debit', balance - 60n, 40n],
      ['release', balance - 60n, 0n],
    ])
    expect(seen).toEqual([['admin_credit', credit, 0n], ...expected])
    const numbers = entries.map(({ seq }) => seq)
    expect(numbers).toEqual(numbers.toSorted((a, b) => Number(a - b)))
  }
})

test('§13: a call that was given up and comes after what was sent in its place charges nothing', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(id, 1_000n)
  const [a, b, c] = [work(id, lease), work(id, lease), work(id, lease)]
  const late = calls.number()
  // Its charges were sent again in other groups, and some in none yet.
  expect(await send([b])).toEqual(['settled'])
  expect(await send([c])).toEqual(['settled'])
  for (const given of [[a, b, c].map((one) => ({ ...one, sentIn: [] })), [a]])
    expect(new Set(await send(given, { number: late }))).toEqual(new Set(['again']))
  expect(await amounts(id)).toEqual({ balance: 9_880, reserved: 0, leased: 880 })
  expect(await send([a, b])).toEqual(['again', 'settled'])
  expect(await send([a])).toEqual(['settled'])
  expect(await amounts(id)).toEqual({ balance: 9_820, reserved: 0, leased: 820 })
})

test('§13: a charge is found in the group in which it was sent, and not in another one that begins with the same charge', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(id, 1_000n)
  const [a, b, c] = [work(id, lease), work(id, lease), work(id, lease)]
  const refused = { ...b, row: { ...b.row, feeWei: b.row.feeWei + 1n } }
  // Nothing of the first call was written, and its group has the name of the second.
  await expect(send([a, refused])).rejects.toMatchObject({ code: '23514' })
  expect(await send([a, c])).toEqual(['settled', 'settled'])
  expect(await send([c, a, b])).toEqual(['settled', 'settled', 'again'])
  expect(await send([b])).toEqual(['settled'])
  expect(await amounts(id)).toEqual({ balance: 9_820, reserved: 0, leased: 820 })
})

test('§13: a lease that has ended does not come back with a late addition', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = { id: await leaseOf(id, 1_000n), customerId: id, wei: 500n, ttlMs }
  expect(await addToLease(database.db, lease)).toBe(500n)
  expect(await reserveLeased(database.db, { ...lease, ends: true }, [], ttlMs)).toBe(true)
  expect(await addToLease(database.db, lease)).toBe(0n)
  expect(await send([work(id, lease.id)])).toEqual(['unknown'])
  expect(await amounts(id)).toEqual({ balance: 10_000, reserved: 0, leased: 0 })
})

test('§13: a charge that is there twice, or is no sum of share and fee, or is more than its reserve, undoes its call', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(id, 1_000n)
  const [a, b] = [work(id, lease), work(id, lease)]
  const refused = { code: '23514' }
  await expect(send([a, b, a])).rejects.toMatchObject(refused)
  await expect(send([b, { ...a, row: { ...a.row, feeWei: a.row.feeWei + 1n } }])).rejects.toMatchObject(refused)
  await expect(send([b, { ...a, reservation: { ...a.reservation, amountWei: 59n } }])).rejects.toMatchObject(refused)
  expect(await amounts(id)).toEqual({ balance: 10_000, reserved: 0, leased: 1_000 })
  expect(await send([a, b])).toEqual(['settled', 'settled'])
})

test('§13: reservations of a lease become rows once, however often they are sent', async () => {
  const id = await fundedCustomer(database, credit)
  const leaseId = await leaseOf(id, 1_000n)
  const rows = [1, 2].map(() => ({ id: newId('req'), amountWei: 100n, entry: newId('led') }))
  const one = { id: leaseId, customerId: id, ends: false }
  for (let time = 0; time < 2; time++) {
    expect(await reserveLeased(database.db, one, rows.slice(0, 1), ttlMs)).toBe(true)
    expect(await amounts(id)).toEqual({ balance: 10_000, reserved: 100, leased: 900 })
  }
  expect(await reserveLeased(database.db, { ...one, ends: true }, rows, ttlMs)).toBe(true)
  expect(await reserveLeased(database.db, { ...one, ends: true }, rows, ttlMs)).toBe(false)
  expect(await amounts(id)).toEqual({ balance: 10_000, reserved: 200, leased: 0 })
})

test('§13: at most half of what is available is leased, none while somebody wants to know, and nothing is leased twice', async () => {
  const id = await fundedCustomer(database, 1_001n)
  const lease = { id: newId('mls'), customerId: id, wei: 10_000n, ttlMs }
  expect(await takeLease(database.db, lease)).toBe(500n)
  expect(await takeLease(database.db, lease)).toBe(250n)
  expect(await amounts(id)).toEqual({ balance: 1_001, reserved: 0, leased: 750 })
  expect(await recallLeases(database.db, id, 60_000)).toBe(1)
  expect(await takeLease(database.db, lease)).toBe(0n)
  await database.sql`update money_leases set ends_at = now() - interval '1 s' where customer_id = ${id}`
  expect(await endStaleLeases(database.db)).toBe(1)
  expect(await recallLeases(database.db, id, 60_000)).toBe(0)
  expect(await amounts(id)).toEqual({ balance: 1_001, reserved: 0, leased: 0 })
})

test('§13: a group of charges under a lease is never changed, not its reserves either', async () => {
  const id = await fundedCustomer(database, credit)
  const lease = await leaseOf(id, 1_000n)
  await send([work(id, lease)])
  for (const change of ['reserve_ids = null', 'reserve_seq = null', 'reserved_at_ms = array[0]']) {
    await expect(
      database.sql.unsafe(`update charge_groups set ${change} where customer_id = '${id}'`),
    ).rejects.toMatchObject({ code: '23001' })
  }
})
