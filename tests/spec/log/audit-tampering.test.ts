import { afterEach, describe, expect, test } from 'bun:test'
import { adminRoute } from '../../../src/actions/registry.ts'
import { chainStart, eventMac, headProof } from '../../../src/actors/audit/audit-chain.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import { chainEvents, readHeads } from '../../../src/db/queries/audit/audit-chains.ts'
import { createLog } from '../../../src/log.ts'
import { startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { testAudit } from '../../support/leaks/audit.ts'
import { fixture } from '../../support/run/fixture.ts'

const key = 'audit-key-of-the-tests-0123456789abcdef'
const tables = ['admin_approval_events', 'admin_command_events', 'audit_chains', 'audit_tombstones'] as const

/** Five approvals and a command: seq 1 to 6. */
async function writer(): Promise<string> {
  const log = new AuditLog({
    db: gateway.database.db,
    log: createLog('silent', () => {}),
    keys: [key],
    policyOf: adminRoute,
  })
  for (let at = 0; at < 5; at++) await log.note(testAudit, { targetId: `t${at}` })
  await gateway.database.db.transaction((tx) =>
    log.command(tx, testAudit, { action: 'job.create', commandId: 'cmd_1' }),
  )
  const [head] = await sql`select writer_id from audit_chains order by ordinal desc limit 1`
  return String(head?.writer_id)
}

const gateway = await fixture(startTestGateway(stillLog))
const { sql } = gateway.database
/** The writer whose events are changed, and the newest one. */
const own = await writer()
const newest = await writer()
await gateway.gateway.sequencer.catchUp({ heads: true })
for (const table of tables) await sql.unsafe(`create table kept_${table} as select * from ${table}`)
/** One that was started after all of it was written, as after a stop: it has seen nothing, and nobody saved an end. */
const later = await fixture(startTestGateway(stillLog, undefined, { beside: gateway }))

afterEach(async () => {
  for (const table of tables) await sql.unsafe(`truncate ${table}`)
  for (const table of tables) await sql.unsafe(`insert into ${table} select * from kept_${table}`)
})

const inLog = "every end of the audit's chains leads on from the log"

/** What is found, as both gateways see it. */
async function found(): Promise<ReadonlySet<string>> {
  const seen = await Promise.all(
    [gateway, later].map(async (one) => {
      const chains = await one.gateway.checkAuditChains()
      const books = await one.gateway.checkBooks()
      return [...new Set([...chains.faults.map(({ kind }) => kind), ...books.faults.map(({ rule }) => rule)])].sort()
    }),
  )
  expect(seen[1]).toEqual(seen[0] ?? [])
  return new Set<string>(seen[0])
}

type Edit = readonly [what: string, rule: string, edit: () => Promise<unknown>]
const column = (name: string, value: string): Edit => [
  `${name} of an event changed`,
  'event_altered',
  () => sql.unsafe(`update admin_approval_events set ${name} = ${value} where writer_id = '${own}' and seq = 3`),
]
const removed = (what: string, seqs: string): Edit => [
  what,
  'event_missing',
  async () => {
    for (const table of ['admin_approval_events', 'admin_command_events'])
      await sql.unsafe(`delete from ${table} where writer_id = '${own}' and seq in (${seqs})`)
  },
]
const gone = async (writers: string) => {
  for (const table of ['admin_approval_events', 'admin_command_events', 'audit_chains'])
    await sql.unsafe(`delete from ${table} where ${writers}`)
}

/** As an operator does who has the key: every MAC anew from there on, and the head with them. */
async function sealedAnew(from: number, to: number): Promise<void> {
  const { db } = gateway.database
  const head = (await readHeads(db)).find(({ writerId }) => writerId === own)
  if (head === undefined) throw new Error('no chain')
  const events = await chainEvents(db, own, 0, to)
  let previous: Uint8Array = chainStart
  for (const event of events) {
    const mac = event.seq < from ? event.mac : eventMac(key, previous, event)
    const table = 'commandId' in event ? 'admin_command_events' : 'admin_approval_events'
    await sql.unsafe(
      `update ${table} set mac = '\\x${mac.toString('hex')}' where writer_id = '${own}' and seq = ${event.seq}`,
    )
    previous = mac
  }
  const sealed = { ...head, seq: to, mac: Buffer.from(previous) }
  await sql`update audit_chains set seq = ${to}, mac = ${sealed.mac}, proof = ${headProof(key, sealed)} where writer_id = ${own}`
}

const edits: readonly Edit[] = [
  column('action', "'node.drain'"),
  column('actor_role', "'viewer'"),
  column('actor_hash_prefix', 'null'),
  column('reason', "'another'"),
  column('metadata', `'{"amount_wei":"1"}'`),
  column('created_at', "created_at - interval '1 ms'"),
  column('target_id', "'other'"),
  column('mac', "decode(repeat('00', 32), 'hex')"),
  [
    'a command changed',
    'event_altered',
    () => sql`update admin_command_events set command_id = 'cmd_2' where writer_id = ${own}`,
  ],
  removed('the first event removed', '1'),
  removed('an event in the middle removed', '4'),
  removed('the last event removed', '6'),
  removed('all events of a writer removed', '1, 2, 3, 4, 5, 6'),
  [
    'two events changed places',
    'event_altered',
    () => sql`update admin_approval_events set seq = 7 - seq where writer_id = ${own} and seq in (3, 4)`,
  ],
  [
    'an event put twice',
    'event_foreign',
    () => sql`insert into admin_approval_events select (jsonb_populate_record(e, '{"event_id":"apv_again"}')).*
      from admin_approval_events e where writer_id = ${own} and seq = 2`,
  ],
  [
    'an event after the end',
    'event_foreign',
    () => sql`insert into admin_approval_events select (jsonb_populate_record(e, '{"event_id":"apv_again","seq":9}')).*
      from admin_approval_events e where writer_id = ${own} and seq = 2`,
  ],
  [
    'the end cut off, and the head with it',
    'head_altered',
    async () => {
      await sql`delete from admin_command_events where writer_id = ${own}`
      await sql`update audit_chains set seq = 5, mac = (select mac from admin_approval_events
        where writer_id = ${own} and seq = 5) where writer_id = ${own}`
    },
  ],
  [
    'the end cut off, by who has the key',
    inLog,
    async () => {
      await sql`delete from admin_command_events where writer_id = ${own}`
      await sealedAnew(6, 5)
    },
  ],
  [
    'a reason changed and all after it sealed anew, by who has the key',
    inLog,
    async () => {
      await sql`update admin_approval_events set reason = 'another' where writer_id = ${own} and seq = 3`
      await sealedAnew(3, 6)
    },
  ],
  ['the newest writer removed whole', inLog, () => gone(`writer_id = '${newest}'`)],
  ['everything removed', inLog, () => gone('true')],
]

test('§31: an untouched audit has no fault, and there are 21 edits', async () => {
  expect([...(await found())]).toEqual([])
  expect(edits).toHaveLength(21)
})

describe('§31: an edit of the audit is found without saved ends, by a running gateway and by one started afterwards', () => {
  test.each([...edits])('%s: %s', async (_what, rule, edit) => {
    await edit()
    expect([...(await found())]).toContain(rule)
  })
})
