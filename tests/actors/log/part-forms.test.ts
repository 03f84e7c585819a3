import { expect, test } from 'bun:test'
import { ledgerPart, type PartForm, partForms } from '../../../src/db/queries/log/sources.ts'
import { newAccount } from '../../support/gateways/accounts.ts'
import { startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { charges, commit, groupsOf, reserved } from '../../support/money/groups.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway(stillLog))
const { database } = gateway
const { id: customerId } = await newAccount(gateway, '100000')
const owned = { visibility: 'public', privacy_class: 'public', node_class: 'gpu' }
for (const id of ['node_0', 'node_1']) {
  const row = { node_id: id, customer_id: customerId, name: id, kind: 'agent', ...owned }
  await database.sql`insert into nodes ${database.sql(row)}`
}

const charge = async (count: number) => commit(database, await reserved(database, charges(customerId, count)))
const catchUp = () => gateway.gateway.sequencer.catchUp({ heads: true })

interface Logged {
  readonly from: bigint
  readonly to: bigint
  readonly hash: string
}
async function parts(): Promise<readonly Logged[]> {
  const rows = await database.sql<{ from: string; to: string; hash: string }[]>`
    select from_seq::text as from, to_seq::text as to, hash from log_entries where kind = 'books' order by entry_index`
  return rows.map(({ from, to, hash }) => ({ from: BigInt(from), to: BigInt(to), hash }))
}
async function formOf({ from, to, hash }: Logged): Promise<PartForm | null> {
  for (const form of partForms) {
    const part = await ledgerPart(database.db, from, to, 1_000_000, form)
    if (part?.hash === hash && part.toSeq === to) return form
  }
  return null
}

/** The forms of the parts that the log takes of so many charges. */
async function formsOf(count: number): Promise<readonly (PartForm | null)[]> {
  const before = (await parts()).length
  await charge(count)
  await catchUp()
  return [...new Set(await Promise.all((await parts()).slice(before).map(formOf)))]
}

test('§31: a new log has a line for each group of charges, one of before an upgrade only an hour after it', async () => {
  await catchUp()
  expect(await formsOf(3)).toEqual([3])
  // As the migration leaves a log that was there.
  await database.sql`update log_state set groups_from = now() + interval '1 hour'`
  expect(await formsOf(4)).toEqual([2])
  await database.sql`update log_state set groups_from = now()`
  expect(await formsOf(5)).toEqual([3])
  const all = await parts()
  expect(all.slice(1).map(({ from }) => from)).toEqual(all.slice(0, -1).map(({ to }) => to))
  expect((await gateway.gateway.checkBooks()).faults).toEqual([])
})

test('§31: the log of an upgraded gateway waits, whatever the version that began it', async () => {
  const [row] = await database.sql<{ waits: string }[]>`select column_default as waits from information_schema.columns
    where table_name = 'log_state' and column_name = 'groups_from'`
  expect(row?.waits).toBe("(now() + '01:00:00'::interval)")
})

type Tx = Parameters<Parameters<typeof database.db.transaction>[0]>[0]

/** What is found where the owner of the database has changed a group, which is then undone. */
async function whereChanged<T>(change: string, look: (tx: Tx) => Promise<T>): Promise<T> {
  const undone = new Error('undone')
  let found: T | undefined
  const changed = database.db.transaction(async (tx) => {
    await tx.execute(
      'alter table charge_groups drop constraint charge_groups_whole, drop constraint charge_groups_pkey',
    )
    await tx.execute('set local session_replication_role = replica')
    await tx.execute(`update charge_groups set ${change}`)
    found = await look(tx)
    throw undone
  })
  await expect(changed).rejects.toBe(undone)
  return found as T
}

const changeOf = (column: string): Readonly<Record<string, string>> => ({
  bigint: `${column} + 1`,
  integer: `${column} + 1`,
  numeric: `${column} + 1`,
  boolean: `not ${column}`,
  text: `${column} || 'x'`,
  bytea: `${column} || '\\x00'`,
  'timestamp with time zone': `${column} + interval '1 ms'`,
  ARRAY: `array_append(${column}, null)`,
})

test('§31: the line of a group says all that it holds, but whether its shares have become rows', async () => {
  await charge(2)
  const last = BigInt((await groupsOf(database, customerId)).at(-1)?.seq ?? 0)
  const part = async (db: Pick<Tx, 'execute'>) =>
    (await ledgerPart(db as typeof database.db, last - 20n, last + 10n, 1_000, 3))?.hash
  const same = await part(database.db)
  const columns = await database.sql<{ name: string; type: string }[]>`select column_name as name, data_type as type
    from information_schema.columns where table_name = 'charge_groups' order by ordinal_position`
  expect(columns.length).toBeGreaterThan(25)
  const unsaid: string[] = []
  for (const { name, type } of columns) {
    const change = `${name} = ${changeOf(name)[type]} where last_seq = ${last}`
    if ((await whereChanged(change, part)) === same) unsaid.push(name)
  }
  expect(unsaid).toEqual(['shares_moved'])
})

test('§31: a group across the end of the log is no part of its own', async () => {
  await charge(6)
  const last = BigInt((await groupsOf(database, customerId)).at(-1)?.seq ?? 0)
  for (const form of partForms) expect(await ledgerPart(database.db, last - 3n, last - 3n, 1_000, form)).toBeNull()
})

test('§31: a group across the end of a part is in both, whole', async () => {
  await charge(6)
  const last = BigInt((await groupsOf(database, customerId)).at(-1)?.seq ?? 0)
  const end = last - 3n
  const both = async (db: Pick<Tx, 'execute'>) => [
    await ledgerPart(db as typeof database.db, last - 40n, end, 1_000, 3),
    await ledgerPart(db as typeof database.db, end, last, 1_000, 3),
  ]
  const before = await both(database.db)
  expect(before.map((part) => part?.toSeq)).toEqual([end, last])
  const after = await whereChanged(`payees[1] = '0xdead' where last_seq = ${last}`, both)
  expect(after.map((part, at) => part?.hash === before[at]?.hash)).toEqual([false, false])
})
