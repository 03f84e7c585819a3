import { expect, test } from 'bun:test'
import { connect as connectSocket, createServer, type Socket } from 'node:net'
import { eq } from 'drizzle-orm'
import { type Database, driverAddress, openDatabase, sessionOf } from '../../src/db/client.ts'
import { adminTokens } from '../../src/db/schema/accounts.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())

test('§25: DATABASE_URL may name a unix socket folder, as libpq reads it', () => {
  expect(driverAddress('postgres://a:b@localhost/c?host=/run/pg&sslmode=disable')).toEqual({
    url: 'postgres://a:b@localhost/c?sslmode=disable',
    host: '/run/pg',
  })
  expect(driverAddress('postgres://a:b@db.example:6432/c')).toEqual({ url: 'postgres://a:b@db.example:6432/c' })
})

test('§26: DATABASE_URL may name a primary and its standbys: the one that takes writes is wanted', () => {
  const several = { host: 'a.example:6432,b.example:5432', target_session_attrs: 'primary' } as const
  for (const query of ['', '?target_session_attrs=read-write'])
    expect(driverAddress(`postgres://u:p%2C1@a.example:6432,b.example/c${query}`)).toEqual({
      url: 'postgres://u:p%2C1@a.example:6432/c',
      ...several,
    })
  expect(driverAddress('postgres://u@a.example,b.example:5432/c?sslmode=require')).toEqual({
    url: 'postgres://u@a.example/c?sslmode=require',
    host: 'a.example:5432,b.example:5432',
    target_session_attrs: 'primary',
  })
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

test('a session of its own takes no connection of the pool, and has its settings', async () => {
  const pool = openDatabase({ url: database.url, connectionsMax: 1, statementTimeoutMs: 54_321 })
  const held = sessionOf(pool.sql)
  await held`begin`
  const [own] = await held`select pg_backend_pid() as pid, current_setting('statement_timeout') as timeout`
  const [other] = await pool.sql`select pg_backend_pid() as pid`
  expect([own?.timeout, own?.pid === other?.pid]).toEqual(['54321ms', false])
  await held.end()
  await pool.close()
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

/** The server's unix socket on a TCP port; `cut` resets every connection. */
async function tcpFront(): Promise<{ url: string; cut(): void; close(): void }> {
  const target = new URL(database.url)
  const path = `${target.searchParams.get('host')}/.s.PGSQL.5432`
  const open = new Set<Socket>()
  const server = createServer((near) => {
    const far = connectSocket(path)
    for (const socket of [near, far]) socket.on('error', () => {})
    near.pipe(far).pipe(near)
    open.add(near)
    near.on('close', () => open.delete(near) && far.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  target.host = `127.0.0.1:${typeof address === 'object' ? address?.port : 0}`
  target.searchParams.delete('host')
  return {
    url: target.toString(),
    cut: () => {
      for (const socket of open) socket.resetAndDestroy()
    },
    close: () => server.close(),
  }
}

test('§25: DATABASE_URL over TCP; queries whose connection is cut all settle, and the next ones succeed', async () => {
  const front = await tcpFront()
  const pool = openDatabase({ url: front.url, connectionsMax: 3 })
  expect(await pool.sql`select 1 as one`).toMatchObject([{ one: 1 }])
  let sent = 0
  const client = async () => {
    for (let round = 0; round < 20; round++) {
      await pool.sql`select pg_sleep(0.002)`.catch(() => 'failed')
      if (++sent % 25 === 0) front.cut()
    }
  }
  await Promise.all(Array.from({ length: 8 }, client))
  expect(sent).toBe(160)
  const last = [
    await pool.sql`select 1`.catch(() => 0),
    await pool.sql`select 1`.catch(() => 0),
    await pool.sql`select 3 as three`,
  ]
  expect(last[2]).toMatchObject([{ three: 3 }])
  await pool.close()
  front.close()
})
