import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { adminRoute } from '../../../src/actions/registry.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import { createLog } from '../../../src/log.ts'
import { json, startTestGateway, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { testAudit } from '../../support/leaks/audit.ts'

/** §16: a gateway keeps the head of its own chain in memory, so that a deletion of the newest rows is seen. */
let gateway: TestGateway
let sql: TestGateway['database']['sql']
beforeEach(async () => {
  gateway = await startTestGateway()
  ;({ sql } = gateway.database)
})
afterEach(() => gateway.stop())

const create = (name: string) =>
  gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: name, reason: 'a test' } })
const rowsOf = async (table: string) => (await sql.unsafe(`select count(*)::int as n from ${table}`))[0]?.n as number
const named = async (name: string) => (await sql`select 1 from customers where display_name = ${name}`).length
async function headLost(): Promise<string | undefined> {
  const response = await gateway.ask('GET', '/metrics', {
    headers: { authorization: `Bearer ${gateway.tokens.viewer}` },
  })
  return /^svc_audit_head_lost (\d)$/m.exec(await response.text())?.[1]
}
async function expectRefused(name: string): Promise<void> {
  const [customers, events] = [await rowsOf('customers'), await rowsOf('admin_approval_events')]
  const response = await create(name)
  expect([response.status, (await json(response)).code]).toEqual([503, 'audit_head_lost'])
  // Taken back whole: neither the action nor an event stands.
  expect([await named(name), await rowsOf('customers'), await rowsOf('admin_approval_events')]).toEqual([
    0,
    customers,
    events,
  ])
}

test('the newest writer’s rows and head are deleted: the next action is refused, alarmed, and starts no new chain', async () => {
  expect((await create('first')).status).toBe(201)
  expect(await headLost()).toBe('0')
  const [head] = await sql`select * from audit_chains`
  const events = await sql`select * from admin_approval_events`
  await sql`create table kept_events as select * from admin_approval_events`
  await sql`delete from admin_approval_events`
  await sql`delete from audit_chains`
  await expectRefused('second')
  await expectRefused('third')
  expect([await rowsOf('audit_chains'), await headLost()]).toEqual([0, '1'])
  const lines = gateway.logged().filter(({ event }) => event === 'audit_head_lost')
  expect(lines).toMatchObject([
    { level: 'error', writer_id: head?.writer_id, seq: 1, mac: Buffer.from(head?.mac).toString('hex') },
    { level: 'error', seq: 1 },
  ])
  // Whoever puts the rows back has the gateway work again.
  await sql`insert into admin_approval_events select * from kept_events`
  await sql`insert into audit_chains ${sql(head ?? {})}`
  expect((await create('fourth')).status).toBe(201)
  expect([await headLost(), await rowsOf('admin_approval_events')]).toEqual(['0', events.length + 1])
  const chain = await json(await gateway.ask('GET', '/v1/admin/audit/verify', { as: 'viewer' }))
  expect(chain).toMatchObject({ holds: true, checked_event_count: 2 })
})

test('the last event is cut off and the true head before it is put back: refused, though the chain itself holds', async () => {
  await create('first')
  const [older] = await sql`select * from audit_chains`
  await create('second')
  await sql`delete from admin_approval_events where seq = 2`
  await sql`update audit_chains set ${sql(older ?? {})}`
  expect(await json(await gateway.ask('GET', '/v1/admin/audit/verify', { as: 'viewer' }))).toMatchObject({
    holds: true,
  })
  await expectRefused('third')
})

test.each([
  ['ordinal', 'ordinal + 1'],
  ['key_id', "'another'"],
  ['last_at', "last_at - interval '1 day'"],
  ['seq', 'seq + 1'],
  ['mac', "decode(repeat('00', 32), 'hex')"],
])('a head whose %s was changed is not signed anew', async (column, value) => {
  await create('first')
  await sql.unsafe(`update audit_chains set ${column} = ${value}`)
  await expectRefused('second')
})

describe('what a transaction took back is no loss', () => {
  const key = 'audit-key-of-the-tests-0123456789abcdef'
  const writer = () =>
    new AuditLog({ db: gateway.database.db, log: createLog('silent', () => {}), keys: [key], policyOf: adminRoute })
  const fails = (log: ReturnType<typeof writer>) =>
    gateway.database.db
      .transaction(async (tx) => {
        await log.record(tx, testAudit, { targetId: 'never' })
        throw new Error('the action fails after its event')
      })
      .catch((error: Error) => error.message)
  const checked = async () => json(await gateway.ask('GET', '/v1/admin/audit/verify', { as: 'viewer' }))

  test('of the first event, of later ones, of two in one transaction', async () => {
    const log = writer()
    expect(await fails(log)).toContain('fails after')
    await log.note(testAudit, { targetId: 'a' })
    expect(await fails(log)).toContain('fails after')
    expect(await fails(log)).toContain('fails after')
    await gateway.database.db.transaction(async (tx) => {
      await log.record(tx, testAudit, { targetId: 'b' })
      await log.record(tx, testAudit, { targetId: 'c' })
    })
    await log.note(testAudit, { targetId: 'd' })
    expect(log.headLost).toBe(false)
    expect(await checked()).toMatchObject({ holds: true, checked_event_count: 4 })
  })

  test('of many at once, half of which fail', async () => {
    const log = writer()
    const outcomes = await Promise.all(
      Array.from({ length: 40 }, (_, at) =>
        at % 2 === 0 ? fails(log) : log.note(testAudit, { targetId: `t${at}` }).then(() => 'stands'),
      ),
    )
    expect(outcomes.filter((outcome) => outcome === 'stands')).toHaveLength(20)
    expect(await checked()).toMatchObject({ holds: true, checked_event_count: 20 })
  })
})
