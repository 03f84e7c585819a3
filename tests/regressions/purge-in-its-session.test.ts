import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { asOnlyPurge } from '../../src/db/queries/audit/audit-purge.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { settled, waitFor } from '../support/run/wait-until.ts'

/**
 * Symptom: a purge of the audit could take a connection from the gateway for good.
 * Cause: the driver's `reserve()` never resolves where it has to connect for it: another connection that became free was taken, and the new one lost.
 * Fix: a purge has a session of its own. It ends when that one is lost, since its locks are lost with it.
 */
const { url } = await fixture(testDatabase())
const pool = await fixture(openDatabase({ url, connectionsMax: 1 }))

test('§16: a purge leaves the gateway all its connections', async () => {
  const work = async () => [...(await pool.sql`select 1 as one`)]
  for (let times = 0; times < 2; times++) {
    expect(await settled('the purge', asOnlyPurge(pool.sql, work))).toEqual([{ one: 1 }])
  }
})

test('§16: a purge whose session is lost takes nothing out of a table, and the next one may run', async () => {
  const partition = { name: 'none', from: new Date(0), until: new Date(1), state: 'attached' } as const
  const purge = asOnlyPurge(pool.sql, async (session) => {
    const [holder] =
      await pool.sql`select pid from pg_locks where locktype = 'advisory' and classid = 7413 and objid = 74
      and database = (select oid from pg_database where datname = current_database())`
    await pool.sql`select pg_terminate_backend(${holder?.pid})`
    // Its first statements may hear of it; a later one has another connection.
    const told = async () => String(await session.detach('access', partition).then(() => 'detached', String))
    throw new Error(
      await waitFor('the loss', async () => [await told()].find((text) => /purge was lost|not exist/.test(text))),
    )
  })
  await expect(settled('the purge', purge)).rejects.toThrow('the session of the purge was lost')
  expect(await asOnlyPurge(pool.sql, async () => 'done')).toBe('done')
})
