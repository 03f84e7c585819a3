import { beforeEach, expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { adminRoute } from '../../../src/actions/registry.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import { createLog } from '../../../src/log.ts'
import { canonicalJson } from '../../../src/protocol/json/canonical-json.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { testAudit } from '../../support/leaks/audit.ts'
import { fixture } from '../../support/run/fixture.ts'

interface Chain {
  readonly holds: boolean
  readonly checked_event_count: number
  readonly writer_count: number
  readonly faults: readonly { kind: string; writer_id: string | null; at: number | null }[]
  readonly heads: readonly { writer_id: string; seq: number; mac: string; ordinal: number; purged_seq: number | null }[]
}

const gateway = await fixture(startTestGateway())
const { sql } = gateway.database

const key = 'audit-key-of-the-tests-0123456789abcdef'
const verify = async () =>
  (await json(await gateway.ask('GET', '/v1/admin/audit/verify', { as: 'viewer' }))) as unknown as Chain
const faults = async () => (await verify()).faults.map(({ kind, at }) => [kind, at])

/** A writer of its own with five approvals and a command between them: seq 1 to 6. */
async function writer(keys = [key]): Promise<string> {
  const log = new AuditLog({ db: gateway.database.db, log: createLog('silent', () => {}), keys, policyOf: adminRoute })
  for (let index = 0; index < 5; index++) await log.note(testAudit, { targetId: `t${index}` })
  await gateway.database.db.transaction((tx) =>
    log.command(tx, testAudit, { action: 'job.create', commandId: 'cmd_1' }),
  )
  const [head] = await sql`select writer_id from audit_chains order by ordinal desc limit 1`
  return head?.writer_id
}

let own = ''
beforeEach(async () => {
  for (const table of ['admin_approval_events', 'admin_command_events', 'audit_chains', 'audit_tombstones']) {
    await sql.unsafe(`truncate ${table}`)
  }
  own = await writer()
})

test('§16: untouched chains hold, over several writers, and their heads are shown', async () => {
  const second = await writer()
  const chain = await verify()
  expect(chain).toMatchObject({ holds: true, checked_event_count: 12, writer_count: 2, faults: [] })
  expect(chain.heads).toMatchObject([
    { writer_id: second, ordinal: 2, seq: 6, purged_seq: null },
    { writer_id: own, ordinal: 1, seq: 6, purged_seq: null },
  ])
  expect(chain.heads[0]?.mac).toMatch(/^[0-9a-f]{64}$/)
})

test('§16: of many actions at once none is lost and the chain holds', async () => {
  const log = new AuditLog({
    db: gateway.database.db,
    log: createLog('silent', () => {}),
    keys: [key],
    policyOf: adminRoute,
  })
  await Promise.all(Array.from({ length: 40 }, (_, index) => log.note(testAudit, { targetId: `t${index}` })))
  expect(await verify()).toMatchObject({ holds: true, checked_event_count: 46, writer_count: 2 })
})

const columns: Readonly<Record<string, string>> = {
  event_id: "event_id || 'x'",
  action: "'node.drain'",
  actor_type: "'customer'",
  actor_role: "'viewer'",
  actor_hash_prefix: 'null',
  reason: "'another'",
  metadata: `'{"amount_wei":"1"}'`,
  request_id: "'req_1'",
  created_at: "created_at - interval '1 ms'",
  seq: 'seq',
  mac: "decode(repeat('00', 32), 'hex')",
  category: "'audit'",
  target_type: "'node'",
  target_id: "'other'",
  approver_hash_prefix: "'x'",
  approval_policy: "'none'",
  confirmation: "'yes'",
}

test('§16: a change of any column of one event is found', async () => {
  const [sample] = await sql`select * from admin_approval_events limit 1`
  expect(Object.keys(columns).concat('writer_id').sort()).toEqual(Object.keys(sample ?? {}).sort())
  for (const [column, value] of Object.entries(columns)) {
    if (column === 'seq') continue
    const [row] = await sql`select * from admin_approval_events where seq = 3`
    await sql.unsafe(`update admin_approval_events set ${column} = ${value} where seq = 3`)
    const found = await faults()
    expect([column, found[0]]).toEqual([column, ['event_altered', 3]])
    await sql`delete from admin_approval_events where seq = 3`
    await sql.unsafe(
      'insert into admin_approval_events select * from jsonb_populate_record(null::admin_approval_events, $1::text::jsonb)',
      [JSON.stringify({ ...row, mac: `\\x${Buffer.from(row?.mac).toString('hex')}` })],
    )
    expect([column, await faults()]).toEqual([column, []])
  }
})

test('§16: the MAC of an event is over all of its columns and the MAC of the one before', async () => {
  const read = (table: string) => sql.unsafe(`select * from ${table} where writer_id = '${own}'`)
  const kinds = [
    ['approval', await read('admin_approval_events')],
    ['command', await read('admin_command_events')],
  ] as const
  const events = kinds.flatMap(([kind, rows]) => rows.map((row) => ({ kind, row })))
  const inOrder = events.toSorted((a, b) => Number(a.row.seq) - Number(b.row.seq))
  expect(inOrder.map(({ kind }) => kind)).toEqual([...Array(5).fill('approval'), 'command'])
  let previous = '00'.repeat(32)
  for (const { kind, row } of inOrder) {
    const { mac, created_at, seq, ...columns } = row
    const named = Object.entries(columns).map(([name, value]) => [
      name.replaceAll(/_(.)/g, (_, letter: string) => letter.toUpperCase()),
      value,
    ])
    const createdAt = new Date(created_at).toISOString()
    const facts = canonicalJson({ ...Object.fromEntries(named), seq: Number(seq), createdAt, previous })
    const text = `audit-chain-v1\0${kind}\0${facts}`
    const stored = Buffer.from(mac).toString('hex')
    expect([kind, stored]).toEqual([kind, createHmac('sha256', key).update(text).digest('hex')])
    previous = stored
  }
})

test('§16: a command event that was changed, and events that changed places, are found', async () => {
  await sql`update admin_command_events set command_id = 'cmd_2'`
  expect(await faults()).toEqual([['event_altered', 6]])
  await sql`update admin_command_events set command_id = 'cmd_1'`
  await sql`update admin_approval_events set seq = 7 - seq where seq in (3, 4)`
  expect((await faults()).length).toBeGreaterThan(0)
})

test('§16: a removed event is found: at the beginning, in the middle, at the end, the last of all', async () => {
  await sql`delete from admin_approval_events where seq = 1`
  expect(await faults()).toEqual([['event_missing', 1]])
  await sql`delete from admin_approval_events where seq = 4`
  expect(await faults()).toEqual([
    ['event_missing', 1],
    ['event_missing', 4],
  ])
  await sql`delete from admin_command_events`
  expect((await faults()).at(-1)).toEqual(['event_missing', 6])
  await sql`delete from admin_approval_events`
  expect(await faults()).toEqual([['event_missing', 1]])
})

test('§16: cutting off the end, head and all, is found: an older head cannot be made up', async () => {
  await sql`delete from admin_command_events`
  await sql`update audit_chains set seq = 5, mac = (select mac from admin_approval_events where seq = 5)`
  expect(await faults()).toEqual([['head_altered', 5]])
})

test('§16: a writer that was removed whole is found, and so are events that nobody wrote', async () => {
  const second = await writer()
  await writer()
  await sql`delete from admin_approval_events where writer_id = ${second}`
  await sql`delete from admin_command_events where writer_id = ${second}`
  await sql`delete from audit_chains where writer_id = ${second}`
  expect(await faults()).toEqual([['writer_missing', 2]])
  await sql`delete from audit_chains where writer_id = ${own}`
  expect(await faults()).toEqual([
    ['writer_missing', 1],
    ['writer_missing', 2],
    ['event_foreign', 6],
  ])
})

test('§16: an event put twice, or after the end, is found', async () => {
  await sql`insert into admin_approval_events select * from (
    select (jsonb_populate_record(e, '{"event_id":"apv_again"}')).* from admin_approval_events e where seq = 2) c`
  expect(await faults()).toEqual([['event_foreign', 2]])
  await sql`update admin_approval_events set seq = 9 where event_id = 'apv_again'`
  expect(await faults()).toEqual([['event_foreign', 9]])
})

test('§16: keys are a list: old chains hold while theirs is in it, and say so when it is not', async () => {
  await writer(['another-key'])
  expect((await verify()).faults).toMatchObject([{ kind: 'key_unknown' }])
})
