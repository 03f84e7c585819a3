import { afterAll, expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { applyMigrations, migrateDatabase, migrations } from '../../src/db/migrate.ts'
import type { LeasedCharge } from '../../src/db/queries/money/leased-charges.ts'
import { endStaleLeases, takeLease } from '../../src/db/queries/money/leases.ts'
import { receiptColumns } from '../../src/db/queries/money/receipts.ts'
import { newId } from '../../src/ids.ts'
import { charges, commit, entriesOf, expectSound, neverGrouped, reserved } from '../support/money/groups.ts'
import { LeasedCalls, leaseOf as takenLease, leasedWork as work } from '../support/money/leased.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { emptyDatabase, type TestDatabase, testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

const credit = 10_000n
const ttlMs = 60_000

afterAll(async () => {
  await expectSound(database)
})
const database = await fixture(testDatabase({ connectionsMax: 12 }))
const today = new LeasedCalls(database)

/** As a gateway of the version before sends charges: it does not say for whom the nodes worked. */
const ownerless = (sql: TestDatabase['sql']) =>
  ({
    unsafe: (text: string, values: never[], options: object) =>
      sql.unsafe(text.replace(/, list_of\([^()]+\)\)$/, ')'), values.slice(0, -1), options),
  }) as unknown as TestDatabase['sql']
const leaseOf = (customerId: string, wei: bigint) => takenLease(database, customerId, wei)

/** As a gateway of the version before charges work of any leases: receipts are rows, and calls have no numbers. */
async function before(given: readonly LeasedCharge[]): Promise<readonly string[]> {
  const leaseKey = ({ reservation }: LeasedCharge) => `${reservation.customerId} ${reservation.leaseId}`
  const sent = given.toSorted((a, b) => (leaseKey(a) < leaseKey(b) ? -1 : leaseKey(a) > leaseKey(b) ? 1 : 0))
  const leases = [...Map.groupBy(sent, leaseKey).values()]
  const sums = (pick: (row: LeasedCharge['row']) => bigint) =>
    `{${leases.map((of) => of.reduce((total, { row }) => total + pick(row), 0n)).join()}}`
  const each = (pick: (charge: LeasedCharge) => unknown) => `{${sent.map((one) => pick(one) ?? 'NULL').join()}}`
  const list = (pick: (row: LeasedCharge['row']) => unknown) => each(({ row }) => pick(row))
  const values = [
    `{${leases.map(([first]) => first?.reservation.leaseId).join()}}`,
    `{${leases.map(([first]) => first?.reservation.customerId).join()}}`,
    `{${leases.map((of) => of.length).join()}}`,
    sums(({ chargedWei }) => chargedWei),
    sums(({ shareWei }) => shareWei),
    sums(({ feeWei }) => feeWei),
    String(ttlMs),
    list(({ id }) => id),
    each(({ reservation }) => reservation.reservedAtMs),
    list(({ chargedWei }) => chargedWei),
    list(({ shareWei }) => shareWei),
    list(({ feeWei }) => feeWei),
    each(({ reservation, row }) => reservation.amountWei - row.chargedWei),
    list(({ receiptHash }) => receiptHash),
    list(({ node }) => node),
    list(({ kind }) => kind),
    each(({ reservation }) => reservation.entry),
    list(({ debit }) => debit),
    list(({ release }) => release),
    list(({ payout, shareWei }) => (shareWei > 0n ? payout : null)),
    list(({ fee, feeWei }) => (feeWei > 0n ? fee : null)),
    JSON.stringify(receiptColumns(sent.map(({ receipt }) => receipt))),
  ]
  const types =
    `text[] text[] int[] numeric[] numeric[] numeric[] bigint text[] bigint[] numeric[] numeric[] numeric[] numeric[]
    text[] text[] text[] text[] text[] text[] text[] text[] json`.split(/\s+/)
  const places = types.map((type, at) => `$${at + 1}::text::${type}`).join()
  const answer = await database.sql.unsafe<{ place: number; outcome: string }[]>(
    `select place, outcome from ledger_charge_leased(${places})`,
    values,
  )
  const outcomes = sent.map(() => 'settled')
  for (const { place, outcome } of answer) outcomes[place - 1] = outcome
  return outcomes
}

async function amounts(customerId: string) {
  const [row] = await database.sql`select balance_wei::int as balance, reserved_wei::int as reserved,
    leased_wei::int as leased from customers where customer_id = ${customerId}`
  return row
}
const debits = async (customerId: string) =>
  (await entriesOf(database, customerId)).filter(({ kind }) => kind === 'debit').length

test('§26: a gateway of the version before and one of today charge one customer under a lease each, at once: each charge once', async () => {
  const id = await fundedCustomer(database, credit)
  const [ofBefore, ofToday] = [await leaseOf(id, 2_000n), await leaseOf(id, 2_000n)]
  const groups = Array.from({ length: 5 }, (_, at) => ({
    old: [work(id, ofBefore), work(id, ofBefore)],
    fresh: Array.from({ length: 1 + (at % 3) }, () => work(id, ofToday)),
  }))
  const heard = await Promise.all(groups.flatMap(({ old, fresh }) => [before(old), today.send(fresh)]))
  // Of calls of one process at once one that is overtaken is to be sent again.
  const late = groups.flatMap(({ fresh }, at) => (heard[2 * at + 1]?.[0] === 'again' ? [fresh] : []))
  for (const fresh of late) expect(await today.send(fresh)).toEqual(fresh.map(() => 'settled'))
  for (const { old } of groups) expect(await before(old)).toEqual(['settled', 'settled'])
  const count = groups.reduce((sum, { old, fresh }) => sum + old.length + fresh.length, 0)
  expect(await debits(id)).toBe(count)
  expect(await amounts(id)).toEqual({ balance: 10_000 - 60 * count, reserved: 0, leased: 4_000 - 60 * count })
  await expectSound(database)
})

test('§26: a lease of a gateway of the version before that has ended charges nothing, and one that its addition revives no more than that', async () => {
  const id = await fundedCustomer(database, credit)
  const leaseId = await leaseOf(id, 1_000n)
  const [a, b] = [work(id, leaseId), work(id, leaseId)]
  expect(await before([a])).toEqual(['settled'])
  await database.sql`update money_leases set ends_at = now() - interval '1 s' where lease_id = ${leaseId}`
  expect(await endStaleLeases(database.db)).toBe(1)
  expect(await before([b])).toEqual(['unknown'])
  // What was charged is known though the lease is gone.
  expect(await before([a])).toEqual(['settled'])
  // It asks for more as for a new one. Its charges of before go beyond that: all of them are refused, and the lease ends.
  expect(await takeLease(database.db, { id: leaseId, customerId: id, wei: 50n, ttlMs })).toBe(50n)
  expect(await before([b])).toEqual(['unknown'])
  expect(await amounts(id)).toEqual({ balance: 9_940, reserved: 0, leased: 0 })
  expect(await before([work(id, newId('mls'))])).toEqual(['unknown'])
  expect(await debits(id)).toBe(1)
})

test('§26: the charge of a gateway of the version before, which does not say for whom the node worked, goes to the address of whoever has the node', async () => {
  const id = await fundedCustomer(database, credit)
  const leaseId = await leaseOf(id, 1_000n)
  const [nodeId, former, address] = [newId('node'), newId('cus'), `0x${'c3'.repeat(20)}`]
  await database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, payout_address,
      former_payees)
    values (${nodeId}, ${id}, 'runtime', 'n', 'public', 'public', 'gpu', ${address}, jsonb_build_object(${former}::text, 'elsewhere'))`
  const calls = new LeasedCalls({ sql: ownerless(database.sql) })
  const sold = { nodeId, ownerId: former }
  expect(await calls.send([work(id, leaseId, sold), work(id, leaseId, sold)])).toEqual(['settled', 'settled'])
  expect(await today.send([work(id, await leaseOf(id, 1_000n), sold)])).toEqual(['settled'])
  const shares = await database.sql`select payee from payouts where node_id = ${nodeId} order by created_at`
  expect(shares.map(({ payee }) => payee)).toEqual([address, address, 'elsewhere'])
})

test('§26: of a node that a gateway of the version before deletes, charges of each version go to the address that its owner had', async () => {
  const id = await fundedCustomer(database, credit)
  const leaseId = await leaseOf(id, 2_000n)
  const [nodeId, former, address] = [newId('node'), newId('cus'), `0x${'d4'.repeat(20)}`]
  // By hand it was written back once.
  for (const payee of ['before', address]) {
    await database.sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, payout_address,
        former_payees)
      values (${nodeId}, ${id}, 'runtime', 'n', 'public', 'public', 'gpu', ${payee}, jsonb_build_object(${former}::text, 'elsewhere'))`
    await database.sql`delete from nodes where node_id = ${nodeId}`
  }
  const calls = new LeasedCalls({ sql: ownerless(database.sql) })
  const ofOwner = (ownerId: string) => work(id, leaseId, { nodeId, ownerId })
  expect(await before([ofOwner(id)])).toEqual(['settled'])
  expect(await calls.send([ofOwner(id), ofOwner(id)])).toEqual(['settled', 'settled'])
  expect(await today.send([ofOwner(former)])).toEqual(['settled'])
  // Of two nodes each is looked for by itself.
  expect(await today.send([ofOwner(id), ofOwner(former), work(id, leaseId)])).toEqual(['settled', 'settled', 'settled'])
  const shares = await database.sql`select payee from payouts where node_id = ${nodeId} order by payee`
  expect(shares.map(({ payee }) => payee)).toEqual([address, address, address, address, 'elsewhere', 'elsewhere'])
})

test('§26: charges of both versions, as rows and under leases, and ends of leases never wait for each other in a circle', async () => {
  const made = await Promise.all(Array.from({ length: 5 }, () => fundedCustomer(database, credit)))
  const customers = made.toSorted()
  const processes = [new LeasedCalls(database), new LeasedCalls(database)]
  const rounds = 4
  /** Each of a process of its own, and in an order of its own. */
  const groups = await Promise.all(
    [...processes, null].map(async (calls) => ({
      calls,
      leases: await Promise.all(customers.map(async (id) => [id, await leaseOf(id, 1_000n)] as const)),
    })),
  )
  const rows = await Promise.all(
    Array.from({ length: rounds }, () =>
      reserved(
        database,
        customers.toReversed().flatMap((id) => charges(id, 2)),
      ),
    ),
  )
  for (let round = 0; round < rounds; round++) {
    const turned = <T>(all: readonly T[]) => [...all.slice(round % all.length), ...all.slice(0, round % all.length)]
    // The customer in the middle stays locked until all have begun, so that those from the other side hold the rest.
    const heard = await database.sql.begin(async (tx) => {
      await tx`select 1 from customers where customer_id = ${customers[2] ?? ''} for update`
      const sent = groups.map(({ calls, leases }) => {
        const both = turned(leases).flatMap(([id, lease]) => [work(id, lease), work(id, lease)])
        return calls === null ? before(both) : calls.send(both, { grouped: round % 2 === 0 })
      })
      const others = [
        commit(database, rows[round] as (typeof rows)[number], round % 2 === 0 ? 1 : neverGrouped),
        ...turned(customers).map(async (id) => {
          const short = await leaseOf(id, 10n)
          await database.sql`update money_leases set ends_at = now() - interval '1 s' where lease_id = ${short}`
          return endStaleLeases(database.db)
        }),
      ]
      await waitUntil('all wait', async () => (await lockWaits(database.sql)) > groups.length)
      return { all: Promise.all([Promise.all(sent), Promise.all(others)]) }
    })
    const [outcomes] = await heard.all
    expect(new Set(outcomes.flat())).toEqual(new Set(['settled']))
  }
  for (const id of customers) expect(await debits(id)).toBe(rounds * (3 * 2 + 2))
  await expectSound(database)
})

test('§26: a gateway whose statement was prepared before the migration charges on after it', async () => {
  const old = await emptyDatabase()
  const opened = openDatabase({ url: old.url, connectionsMax: 1 })
  const { sql } = opened
  try {
    const all = migrations()
    const named = all.findIndex(({ statements }) =>
      statements.some((text) => text.includes('DROP FUNCTION leased_charges_write(')),
    )
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, named)))
    const [calls, id] = [new LeasedCalls({ sql: ownerless(sql) }), await fundedCustomer(opened, credit)]
    const leaseId = await takenLease(opened, id, 1_000n)
    expect(await calls.send([work(id, leaseId)])).toEqual(['settled'])
    await migrateDatabase(old.url)
    expect(await calls.send([work(id, leaseId)])).toEqual(['settled'])
  } finally {
    await opened.close()
    await old.drop()
  }
})
