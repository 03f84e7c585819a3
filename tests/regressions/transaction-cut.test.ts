import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { lasts } from '../support/run/lasts.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { settled } from '../support/run/wait-until.ts'

/**
 * Symptom: after a restart of PostgreSQL in the middle of a few transactions every query waited for ever, or the process
 * ended with `null is not an object (evaluating 'socket.write')`.
 * Cause: postgres.js 3.4.9 sends the ROLLBACK of a transaction to the connection that has just ended.
 * Fix: the fifth repair in src/db/driver.ts.
 */
test('transactions whose connection is cut fail, and the pool goes on', async () => {
  const database = await testDatabase()
  const { sql, close } = openDatabase({ url: database.url, connectionsMax: 2 })
  try {
    for (let round = 0; round < 12; round++) {
      const cut = sql.begin(async (tx) => {
        const [backend] = await tx`select pg_backend_pid() as pid`
        await database.sql`select pg_terminate_backend(${backend?.pid})`
        if (round % 2 === 1) await lasts(round % 5)
        if (round % 3 > 0) await tx`select 1`
      })
      const outcome = cut.then(
        () => 'committed',
        () => 'failed',
      )
      expect(await settled('the transaction', outcome)).toBe('failed')
    }
    const alive = sql`select 1 as one`.then((rows) => rows[0]?.one)
    expect(await settled('a query', alive)).toBe(1)
  } finally {
    await close()
    await database.drop()
  }
})
