import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { outcomeOf, queryKeys } from '../../../src/http/plugins/access-audit.ts'
import { newToken } from '../../../src/secrets.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { type AskOptions, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const auditKey = 'the-audit-key-of-this-test'
const gateway = await fixture(startTestGateway({ SVC_AUTH_FAILURES_PER_MINUTE: '10000', SVC_AUDIT_KEY: auditKey }))

const roles = ['viewer', 'operator', 'admin'] as const
const rows = () => new RouteTable(gateway.app).rows.filter(({ path }) => path.startsWith('/v1/admin/'))
const target = (path: string) => path.replaceAll(/:\w+/g, 'none')

/** The one event of a call, by the id that its answer carried. */
async function eventOf(method: string, path: string, options: AskOptions = {}) {
  const response = await gateway.ask(method, path, options)
  const id = response.headers.get('x-request-id') ?? ''
  // The event follows the answer.
  const find = async () => {
    await gateway.gateway.audit.writer.flush()
    const found = await gateway.database.sql`select * from admin_access_events where request_id = ${id}`
    return found.length === 0 ? null : found
  }
  const events = await waitFor(`the event of ${method} ${path}`, find)
  expect([method, path, events.length]).toEqual([method, path, 1])
  return { response, event: events[0] ?? {} }
}

const kind = (status: number) => (status < 400 ? 'success' : status === 401 || status === 403 ? 'denied' : 'failed')

test('§16: role × route, without a token and with a wrong one: each call leaves one event, by its template', async () => {
  const wrong = { headers: { 'x-svc-admin-token': newToken('admin') } }
  const callers: readonly (readonly [AskOptions, string | null])[] = [
    [{}, null],
    [wrong, null],
    ...roles.map((as) => [{ as }, as] as const),
  ]
  for (const { method, path } of rows()) {
    for (const [caller, role] of callers) {
      const options = { ...caller, ...(method === 'GET' ? {} : { json: {} }) }
      const beforeMs = Date.now()
      const { response, event } = await eventOf(method, `${target(path)}?limit=x&z=1`, options)
      const { status } = response
      const code = status < 400 ? null : ((await response.json()) as { code: string }).code
      expect<Record<string, unknown>>({ ...event, created_at: null }).toEqual({
        event_id: expect.stringMatching(/^evt_[0-9A-Z]{26}$/),
        actor_type: role === null ? 'unauthenticated' : 'admin_token',
        actor_role: role ?? 'viewer',
        actor_hash_prefix: role === null ? null : expect.stringMatching(/^[0-9a-f]{12}$/),
        method,
        path_template: path,
        query_keys: ['limit', 'z'],
        status_code: status,
        outcome: kind(status),
        error_code: code,
        user_agent_hash_prefix: expect.stringMatching(/^[0-9a-f]{12}$/),
        ip_hash_prefix: expect.stringMatching(/^[0-9a-f]{12}$/),
        request_id: response.headers.get('x-request-id'),
        created_at: null,
      })
      expect(Date.parse(event.created_at)).toBeGreaterThanOrEqual(beforeMs)
      expect(Date.parse(event.created_at)).toBeLessThanOrEqual(Date.now())
    }
  }
})

test('§16: a path that no route has is kept as /v1/admin/*, with its caller where the token is good', async () => {
  const unknown = [
    ['GET', '/v1/admin/secret-path'],
    ['POST', '/v1/admin/nodes/a/b/c'],
    ['GET', '/v1/admin'],
  ] as const
  for (const [method, path] of unknown) {
    const { event } = await eventOf(method, path)
    expect(event).toMatchObject({
      actor_type: 'unauthenticated',
      actor_hash_prefix: null,
      method,
      path_template: '/v1/admin/*',
      status_code: 404,
      outcome: 'failed',
      error_code: 'route_not_found',
    })
    const { event: known } = await eventOf(method, path, { as: 'operator' })
    expect(known).toMatchObject({ actor_type: 'admin_token', actor_role: 'operator', path_template: '/v1/admin/*' })
  }
  const { event: wrongMethod } = await eventOf('PATCH', '/v1/admin/nodes', { as: 'admin' })
  expect(wrongMethod).toMatchObject({ method: 'PATCH', path_template: '/v1/admin/nodes', status_code: 405 })
})

test('§16: other paths leave none', async () => {
  const events = async () =>
    (await gateway.database.sql`select count(*)::int as count from admin_access_events`)[0]?.count
  const before = await events()
  for (const path of ['/v1/api/models', '/healthz', '/v1/administrator', '/nothing']) await gateway.ask('GET', path)
  await eventOf('GET', '/v1/admin/nodes')
  expect(await events()).toBe(before + 1)
})

test('§16: one token, address and user agent have one pseudonym each, others have others', async () => {
  const first = (await eventOf('GET', '/v1/admin/nodes', { as: 'admin', headers: { 'user-agent': 'one' } })).event
  const same = (await eventOf('GET', '/v1/admin/models', { as: 'admin', headers: { 'user-agent': 'one' } })).event
  const other = (await eventOf('GET', '/v1/admin/nodes', { as: 'viewer', headers: { 'user-agent': 'two' } })).event
  const prefixes = (event: Record<string, unknown>) => [event.actor_hash_prefix, event.user_agent_hash_prefix]
  expect(prefixes(same)).toEqual(prefixes(first))
  expect(other.ip_hash_prefix).toBe(first.ip_hash_prefix)
  for (const [at, prefix] of prefixes(other).entries()) expect(prefix).not.toBe(prefixes(first)[at])
})

test('§16: a prefix is 12 hex digits of an HMAC-SHA-256 under SVC_AUDIT_KEY over field, NUL and value', async () => {
  const token = gateway.tokens.viewer
  const { event } = await eventOf('GET', '/v1/admin/nodes', { as: 'viewer', headers: { 'user-agent': 'curl/8' } })
  const prefixOf = (field: string, value: string) =>
    createHmac('sha256', auditKey).update(`${field}\0${value}`).digest('hex').slice(0, 12)
  expect([event.actor_hash_prefix, event.user_agent_hash_prefix, event.ip_hash_prefix]).toEqual([
    prefixOf('actor', token),
    prefixOf('user_agent', 'curl/8'),
    prefixOf('ip', '127.0.0.1'),
  ])
})

test('§16: names of query keys: sorted, once, at most 20, and none that is no name or looks like a token', () => {
  expect(queryKeys('http://localhost/v1/admin/x')).toEqual([])
  expect(queryKeys('http://localhost/x?b=1&a=2&b=3&a')).toEqual(['a', 'b'])
  expect(queryKeys(`http://localhost/x?${newToken('admin')}=1&a%20b=1&=2&ok=1`)).toEqual(['ok', 'other'])
  const many = Array.from({ length: 50 }, (_, index) => `k${String(index).padStart(2, '0')}=v`).join('&')
  expect(queryKeys(`http://localhost/x?${many}`)).toHaveLength(20)
})

test('§16: outcomes follow the status', () => {
  const outcomes = [200, 204, 304, 400, 401, 403, 404, 429, 499, 500, 503].map(outcomeOf)
  const [success, denied, failed, error] = ['success', 'denied', 'failed', 'error'] as const
  expect(outcomes).toEqual([
    ...[success, success, success],
    ...[failed, denied, denied, failed, failed, failed],
    ...[error, error],
  ])
})

test('§16: an ordered stop writes what waits; beyond the bound events are refused and counted', async () => {
  await using own = await scoped(startTestGateway())
  const { audit, metrics } = own.gateway
  const kept = own.database.sql
  await Promise.all(Array.from({ length: 200 }, () => own.ask('GET', '/v1/admin/nodes', { as: 'viewer' })))
  await waitFor('the metrics to tell what was stored', async () =>
    (await metrics.text()).includes('svc_audit_access_events_written_total 200\n'),
  )
  await kept`alter table admin_access_events rename to away`
  await Promise.all(Array.from({ length: 100 }, () => own.ask('GET', '/v1/admin/nodes', { as: 'viewer' })))
  const { access } = audit
  const sample = { actorType: 'admin_token', actorRole: 'viewer', actorHashPrefix: null, method: 'GET' } as const
  const rest = { pathTemplate: '/x', queryKeys: [], statusCode: 200, outcome: 'success', errorCode: null } as const
  const none = { userAgentHashPrefix: null, ipHashPrefix: null, requestId: 'req_x' }
  // 10,000 wait, and at most 500 are under way to the database.
  const flood = 10_000 + 500 + 100
  for (let index = 0; index < flood; index++) access.call(audit, { ...sample, ...rest, ...none })
  expect(audit.writer.dropped()).toBeGreaterThanOrEqual(100)
  // Events follow their answers: the last of the hundred may come, and be refused, while the metrics are gathered.
  await waitFor('the metrics to tell what was refused', async () => {
    const text = await metrics.text()
    return text.includes(`svc_audit_access_events_refused_total ${audit.writer.dropped()}\n`)
  })
  await kept`alter table away rename to admin_access_events`
  await own.gateway.stop()
  const [row] = await kept`select count(*)::int as count from admin_access_events`
  expect(row?.count).toBe(300 + flood - audit.writer.dropped())
  expect(row?.count).toBe(audit.writer.written())
})
