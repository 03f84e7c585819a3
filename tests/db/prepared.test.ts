import { expect, test } from 'bun:test'
import { sql } from 'drizzle-orm'
import { openDatabase } from '../../src/db/client.ts'
import { prepared } from '../../src/db/prepared.ts'
import { failureName } from '../../src/log.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'

const database = await fixture(testDatabase())
const one = await fixture(openDatabase({ url: database.url, connectionsMax: 1 }))

const define = (type: string) =>
  database.sql.unsafe(`drop function if exists twice; create function twice(v int) returns table (n ${type})
    language sql as $$ select (v * 2)::${type} $$`)
const twice = async (value: number) => [...(await prepared(one.sql).execute(sql`select n from twice(${value}::int)`))]

test('a prepared statement is parsed once on a connection', async () => {
  await define('int')
  for (const value of [1, 2, 3]) expect(await twice(value)).toEqual([{ n: value * 2 }])
  const kept =
    await one.sql`select count(*)::int as n from pg_prepared_statements where statement like 'select n from twice%'`
  expect(kept).toMatchObject([{ n: 1 }])
})

test('it goes on after an upgrade has replaced its function, and after its connection was lost', async () => {
  await define('int')
  expect(await twice(4)).toEqual([{ n: 8 }])
  await define('text')
  expect(await twice(4)).toEqual([{ n: '8' }])
  const [held] = await one.sql<{ pid: number }[]>`select pg_backend_pid() as pid`
  await database.sql`select pg_terminate_backend(${held?.pid ?? 0})`
  let answered: unknown = null
  while (answered === null) answered = await twice(5).catch(() => null)
  expect(answered).toEqual([{ n: '10' }])
})

test('of a failure a log line has the code of PostgreSQL, and nothing of the statement or its parameters', async () => {
  const failed = await prepared(one.sql)
    .execute(sql`select ${'a secret'}::int`)
    .then(
      () => null,
      (error: unknown) => error,
    )
  // PostgreSQL itself names the value that it could not read.
  expect(String(failed)).toContain('a secret')
  expect(failureName(failed)).toBe('22P02')
})
