import { afterAll, beforeAll, expect, test } from 'bun:test'
import { eq } from 'drizzle-orm'
import { type Database, driverAddress, openDatabase } from '../../src/db/client.ts'
import { adminTokens } from '../../src/db/schema/accounts.ts'
import { type TestDatabase, testDatabase } from '../support/postgres.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await testDatabase()
})
afterAll(() => database.drop())

test('§25: DATABASE_URL may name a unix socket folder, as libpq reads it', () => {
  expect(driverAddress('postgres://a:b@localhost/c?host=/run/pg&sslmode=disable')).toEqual({
    url: 'postgres://a:b@localhost/c?sslmode=disable',
    host: '/run/pg',
  })
  expect(driverAddress('postgres://a:b@db.example:6432/c')).toEqual({ url: 'postgres://a:b@db.example:6432/c' })
})

test('a query takes the pool and a transaction alike', async () => {
  const insert = (db: Database, byte: number) =>
    db.insert(adminTokens).values({ tokenHash: Buffer.from([byte]), role: 'viewer' })
  await insert(database.db, 1)
  await database.db.transaction(async (tx) => {
    await insert(tx, 2)
  })
  const rows = await database.db.select().from(adminTokens).where(eq(adminTokens.role, 'viewer'))
  expect(rows.map((row) => row.tokenHash[0]).sort()).toEqual([1, 2])
})

test('a statement ends at its timeout with 57014', async () => {
  const slow = openDatabase({ url: database.url, connectionsMax: 1, statementTimeoutMs: 50 })
  const failure = await slow.sql`select pg_sleep(5)`.catch((error: { code: string }) => error.code)
  await slow.close()
  expect(failure).toBe('57014')
})

test('connections that the server ends fail a few queries at once; none waits for ever', async () => {
  const other = openDatabase({ url: database.url, connectionsMax: 1 })
  for (let round = 0; round < 5; round++) {
    const [own] = await other.sql<{ pid: number }[]>`select pg_backend_pid() as pid`
    await database.sql`select pg_terminate_backend(${own?.pid ?? 0})`
    const outcomes: string[] = []
    while (outcomes.at(-1) !== 'ok' && outcomes.length < 4) {
      outcomes.push(
        await other.sql`select 1`.then(
          () => 'ok',
          (error: { code: string }) => error.code,
        ),
      )
    }
    expect(outcomes.at(-1)).toBe('ok')
  }
  await other.close()
})

test('an absent server refuses a query at once', async () => {
  const absent = openDatabase({ url: 'postgres://a:b@127.0.0.1:1/c', connectionsMax: 1 })
  const code = await absent.sql`select 1`.catch((error: { code: string }) => error.code)
  await absent.close()
  expect(code).toBe('ECONNREFUSED')
})
