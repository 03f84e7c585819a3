import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

// The driver counted rows on from where a query had been cut off, so that the first row of the next query on that
// connection stood at a later place: whoever took the first found none, and a key, an order or a balance was "not there".
const database = await fixture(testDatabase())

test('behind a query that failed among its rows, the next one on its connection has its own rows and no other', async () => {
  const one = openDatabase({ url: database.url, connectionsMax: 1 })
  await expect(one.sql`select 1 / (3 - x) from generate_series(1, 9) x`.execute()).rejects.toThrow('division')
  expect([...(await one.sql`select 7 as own`)]).toEqual([{ own: 7 }])
  await one.close()
})

test('behind a query that ran out of time among its rows, too', async () => {
  const one = openDatabase({ url: database.url, connectionsMax: 1, statementTimeoutMs: 1_000 })
  await expect(one.sql`select repeat('x', 10000), pg_sleep(x / 10) from generate_series(1, 20) x`).rejects.toThrow(
    'timeout',
  )
  expect([...(await one.sql`select 7 as own`)]).toEqual([{ own: 7 }])
  await one.close()
})

test('where a connection was lost among the rows of a query, the one that comes in its place begins anew', async () => {
  const one = openDatabase({ url: database.url, connectionsMax: 1 })
  const lost = one.sql`select repeat('x', 10000), pg_sleep(case when x < 9 then 0 else 60 end) from generate_series(1, 9) x`
  const failed = lost.then(
    () => 'answered',
    () => 'failed',
  )
  const ended = async () =>
    (
      await database.sql`select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event = 'PgSleep' and datname = current_database()`
    ).length > 0
  await waitUntil('its rows to come', ended)
  expect(await failed).toBe('failed')
  expect([...(await one.sql`select 7 as own`)]).toEqual([{ own: 7 }])
  await one.close()
})
