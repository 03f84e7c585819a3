import { expect, test } from 'bun:test'
import type { RowsNamed } from '../../../src/protocol/wire/admin/audit.ts'
import { commandLine } from '../../cli/command-line.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

// Rows from before events said what their targets were: nothing in the database tells them from rows that somebody put there.
const gateway = await fixture(startTestGateway())

const faults = async () => (await gateway.gateway.checkBooks()).faults.map(({ rule, subject }) => `${rule}: ${subject}`)
const accountRule = 'every customer and its keys are as their last event made them'
const namedRule = 'every named token is as its last event made it'
const make = async (path: string, body: object) => json(await gateway.ask('POST', path, { as: 'admin', json: body }))
const name = async (reason = 'upgraded') =>
  (await make('/v1/admin/audit/rows', { reason })) as unknown as RowsNamed & { code?: string }
const { sql } = { sql: (text: string) => gateway.database.sql.unsafe(text) }
/** As whoever owns the database; no event is written. */
const insertCustomer = (id: string, created = '2020-01-01Z') =>
  sql(`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, created_at)
    values ('${id}', '${id}', '\\x${Buffer.from(id).toString('hex')}', '\\x00', '${created}')`)

let old = ''
test('§36: an admin vouches for rows that no event has named, each by an event of its own, with the reason', async () => {
  old = String((await make('/v1/admin/customers', { display_name: 'Old', reason: 'new' })).customer_id)
  await make('/v1/admin/admins', { name: 'Ada', role: 'viewer', reason: 'joins' })
  await gateway.ask('PUT', '/v1/admin/models', { as: 'admin', json: { id: 'm', prompt_token_price_wei: '5' } })
  // As a version before wrote them.
  await sql(`update admin_approval_events set metadata = metadata - 'state' - 'prices'`)
  await insertCustomer('cus_before')
  await make('/v1/admin/customers', { display_name: 'New', reason: 'new' })
  await sql(`update customers set display_name = 'Eve' where customer_id = '${old}'`)
  expect(await faults()).toEqual([])
  expect(await name('looked at all of them')).toEqual({
    object: 'svc.admin.rows_named',
    named_count: expect.any(Number),
    all_named: true,
  })
  const events =
    await sql(`select target_type, target_id, reason, metadata ? 'state' as stated from admin_approval_events
    where action = 'audit.rows.name' and target_type <> 'audit_events' order by target_type, target_id`)
  expect(events.map(({ target_type: type, target_id: id }) => [type, id])).toEqual(
    expect.arrayContaining([
      ['customer', old],
      ['customer', 'cus_before'],
      ['model', 'm'],
      ['admin', expect.stringMatching(/^adm_/)],
    ]),
  )
  for (const event of events) expect(event).toMatchObject({ reason: 'looked at all of them', stated: true })
  expect(await faults()).toEqual([])
  // What is named is named once.
  expect(await name()).toMatchObject({ named_count: 0, all_named: true })
})

test('§36: from then on what changes or comes without an event is found, whatever date it bears', async () => {
  await sql(`update customers set display_name = 'Mallory' where customer_id = '${old}'`)
  await sql(`update customers set gateway_policy = '{"daily_tokens": 1}' where customer_id = 'cus_before'`)
  await insertCustomer('cus_eve')
  await sql(`insert into admins (admin_id, name, role, token_hash, display_prefix, created_at)
    values ('adm_eve', 'Eve', 'admin', '\\xabcd', 'svc_', '2020-01-01Z')`)
  const wanted = [...[old, 'cus_before', 'cus_eve'].map((id) => `${accountRule}: ${id}`), `${namedRule}: adm_eve`]
  expect((await faults()).toSorted()).toEqual(wanted.toSorted())
  // A purge that took nothing explains nothing.
  await sql(`insert into audit_purge_runs (run_id, status, older_than_days, cutoff, asker, eligible_access, eligible_command,
      eligible_approval, started_at) values ('run_made_up', 'done', 1, now() + interval '1 year', '{}', 0, 0, 0, now())`)
  expect((await faults()).toSorted()).toEqual(wanted.toSorted())
})

test('§36: to vouch is an act of an admin: no start of a gateway does it, and no other role may', async () => {
  const { named_count: named } = await name('cus_eve is ours')
  expect(named).toBe(2)
  expect((await gateway.ask('POST', '/v1/admin/audit/rows', { as: 'operator', json: { reason: 'x' } })).status).toBe(
    403,
  )
  await insertCustomer('cus_late')
  const fresh = await startTestGateway({}, undefined, { beside: gateway })
  await fresh.stop()
  expect(await faults()).toContain(`${accountRule}: cus_late`)
})

test('§36: who changes a row meanwhile waits for nobody that waits for it', async () => {
  const ids = Array.from({ length: 30 }, (_, at) => `cus_many_${at}`)
  for (const id of ids) await insertCustomer(id)
  const change = (id: string) =>
    gateway.ask('PATCH', `/v1/admin/customers/${id}`, {
      as: 'admin',
      json: { display_name: `${id}, too`, reason: 'x' },
    })
  const [named, ...changed] = await Promise.all([name(), ...ids.map(change)])
  expect(named).toMatchObject({ all_named: true })
  expect(changed.map(({ status }) => status)).toEqual(ids.map(() => 200))
  expect(await faults()).not.toContainEqual(expect.stringContaining('cus_many'))
})

test('§36: the command says how many rows it has named', async () => {
  await insertCustomer('cus_last')
  await using cli = await scoped(commandLine({ SVC_BASE_URL: gateway.url, SVC_ADMIN_TOKEN: gateway.tokens.admin }))
  const { code, out } = await cli.run(['audit', 'name-rows', '--reason', 'all looked at'])
  expect([code, out]).toEqual([0, expect.stringMatching(/named_count +1\nall_named +yes/)])
})
