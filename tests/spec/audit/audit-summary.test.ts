import { expect, test } from 'bun:test'
import { Value } from '@sinclair/typebox/value'
import { AuditSummary } from '../../../src/protocol/wire/admin/audit-summary.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { type AccessRow, addAccess, addCommands, type CommandRow } from '../../support/leaks/audit-rows.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const { sql } = gateway.database
await sql`select audit_ensure_partitions(now() - interval '32 days', now())`

let asks = 0
const ask = (query = '', at = gateway) => {
  if (at === gateway) asks++
  return at.ask('GET', `/v1/admin/audit/summary${query}`, { as: 'viewer' })
}
/** A summary of these events alone: calls that were made before have their event behind them. */
async function summaryOf(access: readonly AccessRow[], commands: readonly CommandRow[] = [], query = '') {
  await waitFor('the events of the calls before', async () => {
    await gateway.gateway.audit.writer.flush()
    return gateway.gateway.audit.writer.written() === asks
  })
  await gateway.database.sql`truncate admin_access_events, admin_command_events`
  await addAccess(gateway, access)
  const ids = await addCommands(gateway, commands)
  const response = await ask(query)
  expect(response.status).toBe(200)
  const body = (await json(response)) as unknown as AuditSummary
  return { body, ids }
}
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const times = (count: number, row: AccessRow) => Array.from({ length: count }, () => row)
const treasury = '/v1/admin/billing/treasury-report'
const credits = '/v1/admin/customers/:customer_id/credits'
const usage = '/v1/admin/customers/:customer_id/usage-export'
const purge = '/v1/admin/retention/audit-events/purge'

test('endpoint 19: every field of an empty window', async () => {
  const { body } = await summaryOf([{ age: 25 }], [{ action: 'node.revoke', age: 25 }])
  expect(body).toEqual({
    object: 'svc.admin.audit_summary',
    generated_at: instant,
    window_hours: 24,
    window_start: instant,
    sample_limit: 1_000,
    access: {
      count: 0,
      truncated: false,
      failed_count: 0,
      denied_count: 0,
      error_count: 0,
      sensitive_count: 0,
      by_role: [],
      by_path: [],
      recent_sensitive_events: [],
    },
    commands: {
      count: 0,
      truncated: false,
      review_event_count: 0,
      by_role: [],
      by_action: [],
      recent_review_events: [],
    },
    risk: {
      status: 'clear',
      review_action_count: 0,
      denied_access_count: 0,
      error_access_count: 0,
      review_actions: [],
    },
  } as unknown as AuditSummary)
  expect(Date.parse(body.generated_at) - Date.parse(body.window_start)).toBe(24 * 3_600_000)
})

test('endpoint 19: calls by role, by path, and the sensitive ones, newest first', async () => {
  const { body } = await summaryOf([
    { method: 'POST', path: credits, role: 'admin', status: 201, age: 5 },
    { path: usage, role: 'operator', status: 404, age: 4 },
    { method: 'POST', path: purge, role: 'viewer', status: 403, age: 3 },
    { method: 'HEAD', path: treasury, role: 'operator', age: 2 },
    { age: 1 },
    { age: 6 },
    { status: 500, age: 7 },
  ])
  expect(Value.Check(AuditSummary, body)).toBe(true)
  const { by_path, recent_sensitive_events, ...counts } = body.access
  expect(counts).toEqual({
    count: 7,
    truncated: false,
    failed_count: 1,
    denied_count: 1,
    error_count: 1,
    sensitive_count: 4,
    by_role: [
      { role: 'admin', count: 1, failed_count: 0, denied_count: 0 },
      { role: 'operator', count: 2, failed_count: 1, denied_count: 0 },
      { role: 'viewer', count: 4, failed_count: 0, denied_count: 1 },
    ],
  })
  const path = (method: string, path_template: string, more: object = {}) => ({
    ...{ method, path_template, count: 1, failed_count: 0, denied_count: 0, last_seen_at: instant },
    ...more,
  })
  expect<readonly object[]>(by_path).toEqual([
    path('GET', '/v1/admin/nodes', { count: 3 }),
    path('HEAD', treasury),
    path('POST', credits),
    path('GET', usage, { failed_count: 1 }),
    path('POST', purge, { denied_count: 1 }),
  ])
  const newestOfNodes = Date.parse(by_path[0]?.last_seen_at ?? '')
  expect(Math.abs(newestOfNodes - (Date.parse(body.generated_at) - 3_600_000))).toBeLessThan(60_000)
  const event = (method: string, path_template: string, rest: object) => ({
    ...{ method, path_template, created_at: instant },
    ...rest,
  })
  expect<readonly object[]>(recent_sensitive_events).toEqual([
    event('HEAD', treasury, { actor_role: 'operator', status_code: 200, outcome: 'success', category: 'billing' }),
    event('POST', purge, { actor_role: 'viewer', status_code: 403, outcome: 'denied', category: 'retention' }),
    event('GET', usage, { actor_role: 'operator', status_code: 404, outcome: 'failed', category: 'data_export' }),
    event('POST', credits, { actor_role: 'admin', status_code: 201, outcome: 'success', category: 'billing' }),
  ])
})

test('endpoint 19: commands, those to be reviewed, and the risk they make', async () => {
  const { body, ids } = await summaryOf(
    [],
    [
      { action: 'node.drain', age: 5 },
      { action: 'node.drain', reason: null, age: 4 },
      { action: 'node.revoke', role: 'admin', age: 3 },
      { action: 'job.create', actor: 'customer', role: 'viewer', reason: null, age: 2 },
      { action: 'job.cancel', age: 1 },
    ],
  )
  expect(Value.Check(AuditSummary, body)).toBe(true)
  const role = (name: string, count: number) => ({ role: name, count, failed_count: 0, denied_count: 0 })
  expect<object>(body.commands).toEqual({
    count: 5,
    truncated: false,
    review_event_count: 2,
    by_role: [role('admin', 1), role('operator', 3), role('viewer', 1)],
    by_action: [
      { action: 'node.drain', count: 2, last_seen_at: instant },
      { action: 'job.cancel', count: 1, last_seen_at: instant },
      { action: 'job.create', count: 1, last_seen_at: instant },
      { action: 'node.revoke', count: 1, last_seen_at: instant },
    ],
    recent_review_events: [
      {
        command_id: ids[2],
        action: 'node.revoke',
        actor_role: 'admin',
        reason_present: true,
        category: 'node_control',
        created_at: instant,
      },
      {
        command_id: ids[1],
        action: 'node.drain',
        actor_role: 'operator',
        reason_present: false,
        category: 'node_control',
        created_at: instant,
      },
    ],
  })
  expect<object>(body.risk).toEqual({
    status: 'review',
    review_action_count: 2,
    denied_access_count: 0,
    error_access_count: 0,
    review_actions: ['node.drain', 'node.revoke'],
  })
})

test('§16: at most 20 recent events of each kind, the newest', async () => {
  const many = Array.from({ length: 30 }, (_, index) => 0.1 + index / 10)
  const { body, ids } = await summaryOf(
    many.map((age) => ({ path: treasury, age })),
    many.map((age) => ({ action: 'node.resume', reason: null, age })),
  )
  expect(body.access.sensitive_count).toBe(30)
  expect(body.access.recent_sensitive_events).toHaveLength(20)
  expect(body.access.recent_sensitive_events[0]?.created_at).toBe(body.access.by_path[0]?.last_seen_at ?? 'none')
  expect(body.commands.review_event_count).toBe(30)
  expect(body.commands.recent_review_events.map(({ command_id }) => command_id)).toEqual(ids.slice(0, 20))
})

test('§16: truncated when a window has more than `limit`, of calls or of commands; counts are of the newest', async () => {
  const exactly = await summaryOf(times(3, {}), [{ action: 'node.drain' }], '?limit=3')
  expect([exactly.body.access.truncated, exactly.body.risk.status]).toEqual([false, 'clear'])
  const { body } = await summaryOf([...times(3, {}), { status: 500, age: 2 }], [], '?limit=3')
  expect(body).toMatchObject({ sample_limit: 3, access: { count: 3, truncated: true, error_count: 0 } })
  expect(body.risk.status).toBe('watch')
  const commands = await summaryOf([], [{ action: 'node.drain' }, { action: 'node.revoke', age: 2 }], '?limit=1')
  expect(commands.body).toMatchObject({
    access: { truncated: false },
    commands: { count: 1, truncated: true, review_event_count: 0 },
    risk: { status: 'watch' },
  })
})

test('§16: the risk at the edges of its thresholds', async () => {
  const cases: readonly (readonly [AccessRow[], string])[] = [
    [[...times(4, { status: 401 }), ...times(4, { status: 503 }), ...times(50, { status: 404 })], 'clear'],
    [times(5, { status: 403 }), 'watch'],
    [times(5, { status: 500 }), 'watch'],
    [times(19, { status: 401 }), 'watch'],
    [times(20, { status: 401 }), 'review'],
    [times(20, { status: 500 }), 'review'],
  ]
  for (const [rows, status] of cases) {
    const { body } = await summaryOf(rows)
    const { denied_count, error_count } = body.access
    expect(body.risk).toMatchObject({ status, denied_access_count: denied_count, error_access_count: error_count })
  }
})

test('§16: the thresholds are the operator’s', async () => {
  await using own = await scoped(startTestGateway({ SVC_AUDIT_WATCH_DENIED: '1', SVC_AUDIT_REVIEW_ERRORS: '2' }))
  const status = async () => ((await json(await ask('', own))) as unknown as AuditSummary).risk.status
  expect(await status()).toBe('clear')
  await addAccess(own, [{ status: 401 }])
  expect(await status()).toBe('watch')
  await addAccess(own, times(2, { status: 500 }))
  expect(await status()).toBe('review')
})

test('§17: window_hours 1 to 720, limit 1 to 10 000', async () => {
  const statuses = async (queries: readonly string[]) => {
    const found: number[] = []
    for (const query of queries) found.push((await ask(query)).status)
    return found
  }
  const good = ['?window_hours=1', '?window_hours=720', '?limit=1', '?limit=10000']
  const bad = [
    '?window_hours=0',
    '?window_hours=721',
    '?limit=0',
    '?limit=10001',
    '?window_hours=1h',
    '?limit=1&limit=1',
  ]
  expect(await statuses(good)).toEqual([200, 200, 200, 200])
  expect(await statuses(bad)).toEqual(bad.map(() => 400))
  const wide = await summaryOf([{ age: 719 }, { age: 721 }], [], '?window_hours=720')
  expect(wide.body).toMatchObject({ window_hours: 720, access: { count: 1 } })
})
