import { expect, test } from 'bun:test'
import { RouteTable } from '../../../src/http/frame/route-table.ts'
import { newToken } from '../../../src/secrets.ts'
import { EventStreamReader } from '../../support/clients/event-stream.ts'
import { waitFor } from '../../support/gateways/gateway.ts'
import { startTestGateway } from '../../support/gateways/http-gateway.ts'
import { everyRow } from '../../support/leaks/every-row.ts'
import { findAll } from '../../support/leaks/leak-markers.ts'
import { fixture } from '../../support/run/fixture.ts'

/** Passes for a name, an id, a text and a part of a path: nothing is refused for its form alone. */
const mark = (what: string) => `mk-${what}-${crypto.randomUUID().replaceAll('-', '')}`

/** What no event, log line, metric or answer may hold. */
const secrets = {
  unknownToken: newToken('admin'),
  approverToken: newToken('admin'),
  nonsenseToken: mark('token'),
  id: mark('id'),
  queryValue: mark('queryvalue'),
  strangeQueryName: `${mark('queryname')} with spaces`,
  tokenAsQueryName: newToken('gateway'),
  bodyName: mark('bodyname'),
  bodyValue: mark('bodyvalue'),
  userAgent: mark('agent'),
  // 2001:db8::/32 is for documents; the rest is random.
  address: `2001:db8:${crypto.randomUUID().slice(0, 4)}:${crypto.randomUUID().slice(0, 4)}::1`,
  cookie: mark('cookie'),
  path: mark('path'),
  confirm: mark('confirm'),
}
/** What the specification names: where it may stand. */
const named = { queryName: mark('keyname'), reason: mark('reason'), modelId: mark('model') }

const answers: string[] = []

async function call(method: string, path: string, more: { headers?: object; body?: object } = {}): Promise<void> {
  const query = new URLSearchParams([
    [named.queryName, secrets.queryValue],
    ['limit', secrets.queryValue],
    [secrets.strangeQueryName, '1'],
    [secrets.tokenAsQueryName, '1'],
  ])
  const response = await fetch(`${gateway.url}${path}?${query}`, {
    method,
    headers: {
      'user-agent': secrets.userAgent,
      'x-forwarded-for': secrets.address,
      cookie: secrets.cookie,
      'x-svc-approver-token': secrets.approverToken,
      'x-svc-reason': named.reason,
      ...(more.body === undefined ? {} : { 'content-type': 'application/json' }),
      ...more.headers,
    },
    ...(more.body === undefined ? {} : { body: JSON.stringify(more.body) }),
  })
  answers.push(`${JSON.stringify([...response.headers])} ${await textOf(response)}`)
}

/** All of it; of a stream that never ends its first events, which hold all that the later ones change. */
async function textOf(response: Response): Promise<string> {
  if (response.headers.get('content-type')?.startsWith('text/event-stream') !== true) return response.text()
  const stream = new EventStreamReader(response)
  await stream.block()
  await stream.block()
  await stream.cancel()
  return stream.text
}

const callers = () => [
  {},
  { 'x-svc-admin-token': secrets.nonsenseToken },
  { 'x-svc-admin-token': secrets.unknownToken },
  ...(['viewer', 'operator', 'admin'] as const).map((role) => ({ 'x-svc-admin-token': gateway.tokens[role] })),
]

const tokens = () => ({ ...gateway.tokens })

const gateway = await fixture(
  startTestGateway({ SVC_TRUSTED_PROXIES: '127.0.0.1', SVC_AUTH_FAILURES_PER_MINUTE: '10000' }),
)
const mounted = new RouteTable(gateway.app).rows.filter(({ path }) => path.startsWith('/v1/admin/'))
const bodies = [
  { [secrets.bodyName]: secrets.bodyValue, reason: named.reason },
  { display_name: { x: secrets.bodyValue }, id: [secrets.bodyValue] },
  { older_than_days: 30, confirm: secrets.confirm },
]
for (const { method, path } of mounted) {
  for (const headers of callers()) {
    const place = path.replaceAll(/:\w+/g, secrets.id)
    if (method === 'GET') await call(method, place, { headers })
    else for (const body of bodies) await call(method, place, { headers, body })
  }
}
for (const headers of callers()) {
  await call('GET', `/v1/admin/${secrets.path}`, { headers })
  await call('POST', `/v1/admin/nodes/${secrets.path}/${secrets.path}`, { headers, body: bodies[0] ?? {} })
}
const admin = { 'x-svc-admin-token': gateway.tokens.admin }
const reason = named.reason
await call('PUT', '/v1/admin/models', { headers: admin, body: { id: named.modelId, reason } })
await call('POST', '/v1/admin/retention/audit-events/purge', {
  headers: admin,
  body: { older_than_days: 30, dry_run: true, confirm: secrets.confirm, reason },
})
const last = `/v1/admin/${secrets.path}/last`
await call('GET', last, { headers: admin })
await waitFor('the last event', async () => {
  await gateway.gateway.audit.writer.flush()
  return gateway.gateway.audit.writer.written() >= answers.length
})
const rows = await everyRow(gateway.database.url)
const metrics = await gateway.gateway.metrics.text()

test('§16, §18: of random words in tokens, ids, queries, bodies, agents and addresses none is in any table', () => {
  const audit = rows.filter(({ table }) => table.startsWith('admin_access_events'))
  expect(audit.length).toBeGreaterThan(300)
  for (const { table, row } of rows) {
    expect(findAll(`a row of ${table}`, [row], { ...secrets, ...tokens() })).toEqual([])
  }
})

test('§16: what the specification names stands in its own field alone', () => {
  const places = new Map<string, Set<string>>()
  for (const { table, row } of rows) {
    for (const [field, value] of Object.entries(JSON.parse(row) as Record<string, unknown>)) {
      for (const [what, word] of Object.entries(named)) {
        if (!JSON.stringify(value)?.includes(word)) continue
        const place = `${table.replace(/_p\d{8}$/, '')}.${field}`
        places.set(what, (places.get(what) ?? new Set()).add(place))
      }
    }
  }
  expect(Object.fromEntries([...places].map(([what, found]) => [what, [...found].sort()]))).toEqual({
    queryName: ['admin_access_events.query_keys'],
    reason: ['admin_approval_events.reason'],
    modelId: ['admin_approval_events.target_id', 'known_models.model_id', 'model_entries.model_id'],
  })
})

test('§18: none is in the log, in metrics or in an answer', () => {
  const log = gateway.logged().map((line) => JSON.stringify(line))
  expect(log.length).toBeGreaterThan(300)
  expect(findAll('the log', log, { ...secrets, ...named, ...tokens() })).toEqual([])
  expect(findAll('metrics', [metrics], { ...secrets, ...named, ...tokens() })).toEqual([])
  const { modelId: _, ...rest } = named
  // Of a body that is refused the answer names the field that nobody knows, and nothing else.
  const { bodyName: __, ...hidden } = secrets
  expect(findAll('an answer', answers, { ...hidden, ...rest, ...tokens() })).toEqual([])
})
