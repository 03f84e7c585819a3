import { expect, test } from 'bun:test'
import { fixture } from '../support/run/fixture.ts'
import { type TestDatabase, testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * Each inserted or changed row moved the one version of its topic, and PostgreSQL walked through all earlier moves of the transaction:
 * a hundred thousand customers by SQL took minutes.
 */

const database = await fixture(testDatabase())

const versionOf = async (topic: string, sql: TestDatabase['sql'] = database.sql) => {
  const [row] = await sql<{ version: string }[]>`select version from directory_versions where topic = ${topic}`
  return Number(row?.version)
}
const rows = 1_000
const insert = (from: number) => database.sql`
  insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
  select 'cus_' || n, 'many', decode(md5('c' || n), 'hex'), '\\x00'::bytea from generate_series(${from}::int, ${from + rows - 1}::int) n`

test('§26: a transaction moves the version of a topic once, and says so once, however many rows it writes', async () => {
  const heard: string[] = []
  const { unlisten } = await database.sql.listen('penstock_changes', (topic) => heard.push(topic))
  const before = await versionOf('customers')
  await insert(0)
  expect(await versionOf('customers')).toBe(before + 1)
  await database.sql`update customers set display_name = 'others' where display_name = 'many'`
  expect(await versionOf('customers')).toBe(before + 2)
  // What no gateway keeps a copy of moves nothing.
  await database.sql`update customers set balance_wei = balance_wei + 1`
  await database.sql`delete from customers where display_name = 'others'`
  expect(await versionOf('customers')).toBe(before + 3)
  await database.sql`select pg_notify('penstock_changes', 'the last')`
  await waitUntil('all of it is heard', () => heard.at(-1) === 'the last')
  expect(heard).toEqual(['customers', 'customers', 'customers', 'the last'])
  await unlisten()
})

test('§26: every transaction that commits moves it, also after one that did not, and beside another', async () => {
  const before = await versionOf('model_entries')
  const put = (sql: TestDatabase['sql'], id: string) => sql`insert into model_entries (model_id) values (${id})`
  const undone = database.sql.begin(async (tx) => {
    await put(tx as unknown as TestDatabase['sql'], 'undone')
    throw new Error('undone')
  })
  await expect(undone).rejects.toThrow('undone')
  expect(await versionOf('model_entries')).toBe(before)
  await database.sql.begin(async (tx) => {
    const inner = tx.savepoint(async (saved) => {
      await put(saved as unknown as TestDatabase['sql'], 'undone')
      throw new Error('undone')
    })
    await expect(inner).rejects.toThrow('undone')
    await put(tx as unknown as TestDatabase['sql'], 'kept')
  })
  expect(await versionOf('model_entries')).toBe(before + 1)
  // The second waits for the first, and moves what that has left.
  await Promise.all(
    ['a', 'b', 'c'].map((id) =>
      database.sql.begin(async (tx) => {
        await put(tx as unknown as TestDatabase['sql'], id)
        await put(tx as unknown as TestDatabase['sql'], `${id}2`)
      }),
    ),
  )
  expect(await versionOf('model_entries')).toBe(before + 4)
})
