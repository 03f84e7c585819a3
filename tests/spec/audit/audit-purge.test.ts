import { afterEach, beforeEach, expect, test } from 'bun:test'
import { adminRoute } from '../../../src/actions/registry.ts'
import { AuditLog } from '../../../src/actors/audit/audit-log.ts'
import { sessionOf } from '../../../src/db/client.ts'
import { ensureAuditPartitions, insertAccessEvents } from '../../../src/db/queries/audit/audit-events.ts'
import { deleteBefore } from '../../../src/db/queries/audit/audit-purge.ts'
import { newId } from '../../../src/ids.ts'
import { createLog } from '../../../src/log.ts'
import { parseNoteKey } from '../../../src/protocol/log/note.ts'
import { verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyBundle } from '../../../src/protocol/verify/bundle.ts'
import type { AuditExport } from '../../../src/protocol/wire/admin/audit-export.ts'
import { dayMs, hourMs } from '../../../src/time.ts'
import { json, startTestGateway, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { testAudit } from '../../support/leaks/audit.ts'
import { scoped } from '../../support/run/fixture.ts'
import { lockWaits } from '../../support/run/lock-waits.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

let gateway: TestGateway
let sql: TestGateway['database']['sql']
// One for each test: a gateway knows the end of its own chain, and refuses to go on where a test has cut it off.
beforeEach(async () => {
  gateway = await startTestGateway()
  ;({ sql } = gateway.database)
})
afterEach(() => gateway.stop())

const key = 'audit-key-of-the-tests-0123456789abcdef'
const path = '/v1/admin/retention/audit-events/purge'
const confirm = 'PURGE AUDIT EVENTS'
const tables = ['admin_access_events', 'admin_command_events', 'admin_approval_events'] as const

const purge = async (body: object, as: 'admin' | 'operator' = 'admin') => {
  const response = await gateway.ask('POST', path, { as, json: body })
  return { status: response.status, body: await json(response) }
}

async function access(ages: readonly number[]): Promise<void> {
  const now = Date.now()
  await insertAccessEvents(
    gateway.database.db,
    ages.map((ageMs) => ({
      eventId: newId('evt'),
      actorType: 'admin_token' as const,
      actorRole: 'admin' as const,
      actorHashPrefix: null,
      method: 'GET',
      pathTemplate: '/v1/admin/nodes',
      queryKeys: [],
      statusCode: 200,
      outcome: 'success' as const,
      errorCode: null,
      userAgentHashPrefix: null,
      ipHashPrefix: null,
      requestId: newId('req'),
      createdAt: new Date(now - ageMs),
    })),
  )
}

/** A writer whose events are as old as `ages` say, oldest first: an approval and a command each. */
async function chain(ages: readonly number[]): Promise<void> {
  const { db } = gateway.database
  let at = 0
  const log = new AuditLog({ db, log: createLog('silent', () => {}), keys: [key], now: () => at, policyOf: adminRoute })
  for (const ageMs of ages) {
    at = Date.now() - ageMs
    await db.transaction((tx) => log.record(tx, { ...testAudit, action: 'node.drain' }, { targetId: 'n' }))
  }
}

const rowsOlder = async (days: number) => {
  const counts = await Promise.all(
    tables.map((table) =>
      sql.unsafe(`select count(*)::int as count from ${table} where created_at < now() - interval '${days} days'`),
    ),
  )
  return counts.map(([row]) => row?.count)
}
const verified = async () => json(await gateway.ask('GET', '/v1/admin/audit/verify', { as: 'viewer' }))

const old = [100, 90, 61, 40, 33, 31].map((days) => days * dayMs)
const young = [29, 20, 2].map((days) => days * dayMs)

beforeEach(async () => {
  const now = Date.now()
  await ensureAuditPartitions(gateway.database.db, new Date(now - 101 * dayMs), new Date(now))
  await access([...old, ...old, ...young])
  await chain([...old, ...young])
})

test('§16: a dry run counts, deletes nothing, and leaves its event', async () => {
  const { status, body } = await purge({ older_than_days: 30, dry_run: true })
  expect([status, body]).toEqual([
    200,
    {
      object: 'svc.admin.audit_retention_purge',
      status: 'dry_run',
      retention_policy: 'admin_audit_events_v1',
      eligible_access_event_count: 12,
      eligible_command_event_count: 6,
      eligible_approval_event_count: 6,
      eligible_total_event_count: 24,
      purged_access_event_count: 0,
      purged_command_event_count: 0,
      purged_approval_event_count: 0,
      purged_total_event_count: 0,
      older_than_days: 30,
      cutoff_created_before: expect.stringMatching(/^\d{4}-.*Z$/),
      purged_at: expect.stringMatching(/^\d{4}-.*Z$/),
    },
  ])
  const span = Date.parse(String(body.purged_at)) - Date.parse(String(body.cutoff_created_before))
  expect(span).toBe(30 * dayMs)
  expect(await rowsOlder(30)).toEqual([12, 6, 6])
  const events =
    await sql`select metadata, confirmation from admin_approval_events where action = 'audit.retention.purge'`
  expect([...events]).toEqual([
    {
      confirmation: null,
      metadata: {
        dry_run: true,
        older_than_days: 30,
        counts: { access: 12, command: 6, approval: 6 },
        result: 'dry_run',
      },
    },
  ])
})

test('§16: a purge removes exactly what is older, whole weeks and the cut one; its own events stay; chains hold', async () => {
  const partitions = async () =>
    (
      await sql`select count(*)::int as count from pg_class where relkind = 'r' and relname ~ '^admin_access_events_p'`
    )[0]?.count
  const before = await partitions()
  const { status, body } = await purge({ older_than_days: 30, confirm, reason: 'retention' })
  expect([status, body]).toMatchObject([
    200,
    {
      status: 'purged',
      eligible_access_event_count: 12,
      eligible_command_event_count: 6,
      eligible_approval_event_count: 6,
      eligible_total_event_count: 24,
      purged_access_event_count: 12,
      purged_command_event_count: 6,
      purged_approval_event_count: 6,
      purged_total_event_count: 24,
    },
  ])
  expect(await rowsOlder(30)).toEqual([0, 0, 0])
  expect(await rowsOlder(1)).toEqual([3, 3, 3])
  expect(before - (await partitions())).toBeGreaterThanOrEqual(9)
  const events = await sql`
    select metadata, confirmation, reason from admin_approval_events where action = 'audit.retention.purge' order by seq`
  const counts = { access: 12, command: 6, approval: 6 }
  expect([...events]).toEqual([
    {
      metadata: { dry_run: false, older_than_days: 30, counts, result: 'started' },
      confirmation: confirm,
      reason: 'retention',
    },
    {
      metadata: { dry_run: false, older_than_days: 30, counts, result: 'purged' },
      confirmation: confirm,
      reason: 'retention',
    },
  ])
  expect(await verified()).toMatchObject({ holds: true, writer_count: 2, checked_event_count: 8 })
  // A second one finds nothing.
  expect((await purge({ older_than_days: 30, confirm })).body).toMatchObject({
    eligible_total_event_count: 0,
    purged_total_event_count: 0,
  })
})

test('§16: an hour decides in the week that the cutoff cuts', async () => {
  const edge = Date.now() - 45 * dayMs
  await access([45 * dayMs - hourMs, 45 * dayMs + hourMs])
  const { body } = await purge({ older_than_days: 45, confirm })
  expect(Date.parse(String(body.cutoff_created_before))).toBeGreaterThanOrEqual(edge)
  expect(body).toMatchObject({ purged_access_event_count: 7, purged_command_event_count: 3 })
})

test('§16: the tombstone of a purge cannot be forged, moved or removed', async () => {
  await purge({ older_than_days: 30, confirm })
  const kinds = async () => ((await verified()).faults as { kind: string }[]).map(({ kind }) => kind)
  expect(await kinds()).toEqual([])
  await sql`update audit_tombstones set seq = seq + 2`
  expect(await kinds()).toContain('tombstone_altered')
  await sql`update audit_tombstones set seq = seq - 2`
  expect(await kinds()).toEqual([])
  await sql`delete from audit_tombstones`
  expect(await kinds()).toEqual(['event_missing'])
})

test('§16: refused without the exact confirmation, with bad bodies, below admin, below the least retention', async () => {
  for (const wrong of [undefined, '', 'purge audit events', 'PURGE AUDIT EVENTS ', 'PURGE']) {
    const { status, body } = await purge({ older_than_days: 30, ...(wrong === undefined ? {} : { confirm: wrong }) })
    expect([wrong, status, body.code]).toEqual([wrong, 400, 'confirmation_required'])
  }
  const bodies = [
    {},
    { older_than_days: 0, confirm },
    { older_than_days: 3_651, confirm },
    { older_than_days: '30', confirm },
    { older_than_days: 1.5, confirm },
    { older_than_days: 30, confirm, more: 1 },
    { older_than_days: 30, dry_run: 'yes' },
  ]
  for (const body of bodies) expect((await purge(body)).body.code).toBe('invalid_request')
  for (const body of [
    { older_than_days: 30, dry_run: true },
    { older_than_days: 30, confirm },
  ]) {
    expect(await purge(body, 'operator')).toMatchObject({ status: 403, body: { code: 'insufficient_role' } })
  }
  const strict = await startTestGateway({ SVC_AUDIT_MIN_RETENTION_DAYS: '30' })
  try {
    const short = { as: 'admin', json: { older_than_days: 29, dry_run: true } } as const
    expect((await json(await strict.ask('POST', path, short))).code).toBe('invalid_request')
    const enough = { as: 'admin', json: { older_than_days: 30, dry_run: true } } as const
    expect((await strict.ask('POST', path, enough)).status).toBe(200)
  } finally {
    await strict.stop()
  }
  expect(await rowsOlder(30)).toEqual([12, 6, 6])
})

test('§16: one purge at a time', async () => {
  const answers = await Promise.all([1, 2, 3].map(() => purge({ older_than_days: 30, confirm })))
  const done = answers.filter(({ status }) => status === 200)
  expect(done.length).toBeGreaterThan(0)
  expect(answers.filter(({ status, body }) => status !== 200 && body.code !== 'invalid_state')).toEqual([])
  expect(done.reduce((sum, { body }) => sum + Number(body.purged_total_event_count), 0)).toBe(24)
})

test('§16: what a stopped gateway left half-done the next one finishes, with exact counts and its event', async () => {
  const cutoff = new Date(Date.now() - 30 * dayMs)
  const partition = await sql`
    select c.relname as name from pg_class c join pg_inherits i on i.inhrelid = c.oid
    where i.inhparent = 'admin_access_events'::regclass order by 1 limit 1`
  // As it is after a crash between detaching and dropping.
  await sql.unsafe(`alter table admin_access_events detach partition ${partition[0]?.name} concurrently`)
  await sql`insert into audit_purge_runs
    (run_id, status, older_than_days, cutoff, asker, eligible_access, eligible_command, eligible_approval, started_at)
    values ('run_left', 'running', 30, ${cutoff.toISOString()}, ${JSON.stringify({
      actorType: 'admin_token',
      actorRole: 'admin',
      actorHashPrefix: null,
      approverHashPrefix: null,
      reason: 'left',
      confirmation: confirm,
      requestId: 'req_left',
    })}::text::jsonb, 12, 6, 6, now())`
  await using _second = await scoped(startTestGateway({}, async () => gateway.database.url))
  const ended = async () => (await sql`select * from audit_purge_runs where run_id = 'run_left'`)[0]
  await waitUntil('the purge is finished', async () => (await ended())?.status === 'done')
  const run = await ended()
  expect([run?.purged_access, run?.purged_command, run?.purged_approval].map(Number)).toEqual([12, 6, 6])
  const [event] = await sql`select * from admin_approval_events where request_id = 'req_left'`
  expect(event).toMatchObject({ action: 'audit.retention.purge', reason: 'left', metadata: { result: 'purged' } })
})

/** The week that the cutoff cuts has a row to delete, whichever weekday it is; `held` is where it stands. */
async function cutWeek() {
  const days = new Date(Date.now() - 30 * dayMs).getUTCDay() === 1 ? 31 : 30
  await access([days * dayMs + hourMs])
  const [found] = await sql`select tableoid::regclass::text as name from admin_access_events
    where created_at < now() - ${days} * interval '1 day' order by created_at desc limit 1`
  return { days, held: String(found?.name) }
}

test('§16: a purge whose session is lost does no more, and the next one finishes what it left', async () => {
  const { days, held } = await cutWeek()
  // No full week is left: a partition is taken out by the session that is lost.
  expect((await purge({ older_than_days: days, confirm })).status).toBe(200)
  await access([days * dayMs + hourMs])
  await chain([days * dayMs + hourMs])
  const holder = sessionOf(sql)
  await holder`begin`
  await holder.unsafe(`select 1 from ${held} for update`)
  const asked = purge({ older_than_days: days, confirm })
  await waitUntil('the purge waits', async () => (await lockWaits(sql, '%delete from%')) > 0)
  const sessions = () => sql<{ pid: number }[]>`select pid from pg_locks where locktype = 'advisory' and classid = 7413
    and objid = 74 and database = (select oid from pg_database where datname = current_database())`
  await sql`select pg_terminate_backend(${(await sessions())[0]?.pid ?? 0})`
  await waitUntil('its locks are free', async () => (await sessions()).length === 0)
  await holder`commit`
  await holder.end()
  expect((await asked).status).toBe(500)
  expect((await rowsOlder(days)).slice(1)).toEqual([1, 1])
  expect((await purge({ older_than_days: days, confirm })).status).toBe(200)
  expect(await rowsOlder(days)).toEqual([0, 0, 0])
  const runs =
    await sql`select purged_access, purged_command, purged_approval from audit_purge_runs order by started_at`
  expect(runs.map((run) => Object.values(run).map(Number))).toEqual([
    [13, 6, 6],
    [1, 1, 1],
    [0, 0, 0],
  ])
})

test('§16: a purge does not end before rows that another one was deleting, and has left', async () => {
  const { days, held } = await cutWeek()
  await access([days * dayMs + hourMs - 1])
  const { db } = gateway.database
  const partition = { name: held, from: new Date(0), until: new Date(), state: 'attached' } as const
  const run = { runId: 'run_other', cutoff: new Date(Date.now() - days * dayMs) }
  const other = sessionOf(sql)
  await other`begin`
  await other.unsafe(`delete from ${held} where (created_at, event_id) in
    (select created_at, event_id from ${held} order by created_at, event_id limit 1)`)
  const removed = deleteBefore(db, run, 'access', partition, 1)
  await waitUntil('it waits', async () => (await lockWaits(sql, '%delete from%')) > 0)
  await other`commit`
  await other.end()
  expect(await removed).toBe(1)
})

test('§31: an export after a purge begins at what the purge left, and holds against the log', async () => {
  await purge({ older_than_days: 30, confirm, reason: 'retention' })
  const ask = async (route: string) => json(await gateway.ask('GET', route, { as: 'viewer' }))
  await ask('/v1/admin/audit/export')
  const { heads } = (await verified()) as unknown as { heads: { writer_id: string }[] }
  const chains = await Promise.all(
    heads.map(async ({ writer_id: writer }) => {
      const { chain: part } = (await ask(
        `/v1/admin/audit/export?writer_id=${writer}&after=0`,
      )) as unknown as AuditExport
      if (part?.logged == null) throw new Error('no chain')
      const { log_proof } = await ask(`/v1/public/log/proof?hash=${part.logged.hash}`)
      return { ...part, logged: { ...part.logged, log_proof } }
    }),
  )
  expect(chains.some(({ begins }) => begins.seq > 0)).toBe(true)
  const { keys } = (await ask('/v1/public/log/keys')) as unknown as { keys: string[] }
  const trust = {
    logKeys: keys.map(parseNoteKey).filter((one) => one !== null),
    witnessKeys: [],
    nodeKeys: [],
    auditKeys: [key],
    witnessesMin: 0,
    logNeeded: true,
    remembered: () => [],
    verify: verifyEd25519,
  }
  const failed = (file: object) =>
    verifyBundle(file, trust)?.flatMap(({ checks }) => checks.filter(({ ok }) => ok === false)) ?? null
  const whole = { object: 'svc.audit_export', chains }
  expect(failed(whole)).toEqual([])
  const purged = chains.findIndex(({ begins }) => begins.seq > 0)
  for (const tombstone of [null, { facts: {}, proof: '00'.repeat(32) }]) {
    const forged = chains.map((one, at) => (at === purged ? { ...one, begins: { ...one.begins, tombstone } } : one))
    expect(failed({ ...whole, chains: forged })?.map(({ name }) => name.split(' ')[0])).toEqual(['begin'])
  }
})
