import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../support/gateways/http-gateway.ts'
import { fixture } from '../support/run/fixture.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/*
 * A disk without room was an internal error for whoever wrote, and `/readyz` said 200, because reading still went well.
 * PostgreSQL says class 53 of it, here by a limit of its own and by a trigger: filling a disk is not for a test.
 */

const gateway = await fixture(startTestGateway())

const ready = async () => {
  const response = await gateway.ask('GET', '/readyz')
  return [response.status, (await json(response)).status]
}

/** For the connections that the gateway opens from now on, which are all of them. */
async function limitTemporaryFiles(kilobytes: number): Promise<void> {
  const { sql } = gateway.database
  const [row] = await sql`select current_database() as name`
  await sql.unsafe(`alter database ${row?.name} set temp_file_limit = ${kilobytes}`)
  await sql`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and pid <> pg_backend_pid()`
}

test('/readyz says that the database has no room to write, and when it has again', async () => {
  expect(await ready()).toEqual([200, 'ready'])
  await limitTemporaryFiles(0)
  await waitUntil('readyz says so', async () => (await ready())[1] === 'database_full', 10_000)
  expect((await ready())[0]).toBe(503)
  await limitTemporaryFiles(-1)
  await waitUntil('readyz is back', async () => (await ready())[0] === 200, 10_000)
})

test('what cannot be written for want of room is 503, to be tried again, and a crash of nothing', async () => {
  const made = await json(
    await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'Alice' } }),
  )
  await gateway.database.sql.unsafe(`
    create function no_room() returns trigger language plpgsql as
      $$ begin raise exception 'could not extend file' using errcode = '53100'; end $$;
    create trigger no_room before insert on ledger_rows for each row execute function no_room();`)
  const credit = () =>
    gateway.ask('POST', `/v1/admin/customers/${made.customer_id}/credits`, {
      as: 'admin',
      json: { credit_id: 'c1', amount_wei: '5', reason: 'test' },
    })
  const refused = await credit()
  expect([refused.status, (await json(refused)).code]).toEqual([503, 'service_unavailable'])
  await gateway.database.sql`drop trigger no_room on ledger_rows`
  expect((await credit()).status).toBeLessThan(300)
})
