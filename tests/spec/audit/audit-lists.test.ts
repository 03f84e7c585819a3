import { expect, test } from 'bun:test'
import { waitFor } from '../../support/gateways/gateway.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'

/** §32. */
const lastPage = { next_cursor: null, truncated: false }

const ids = async () =>
  (await gateway.database.sql<{ customer_id: string }[]>`select customer_id from customers`).map(
    (row) => row.customer_id,
  )

const gateway = await fixture(startTestGateway())
await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'A', reason: 'because' } })
const made = await gateway.ask('POST', '/v1/admin/nodes', {
  as: 'operator',
  json: {
    customer_id: (await ids())[0],
    url: 'http://127.0.0.1:9',
    visibility: 'private',
    privacy_class: 'private',
    node_class: 'gpu',
  },
})
const { node_id } = await json(made)
await gateway.ask('POST', `/v1/admin/nodes/${node_id}/drain`, { as: 'operator', json: { reason: 'works' } })
await gateway.ask('GET', '/v1/admin/nodes?limit=5', { as: 'viewer' })
await gateway.ask('GET', '/v1/admin/nodes')
await waitFor('the events', () => gateway.gateway.audit.writer.written() >= 5)

interface List {
  readonly count: number
  readonly events: readonly Readonly<Record<string, unknown>>[]
  readonly [name: string]: unknown
}
const list = async (kind: string, query = '') =>
  (await json(await gateway.ask('GET', `/v1/admin/${kind}-events${query}`, { as: 'viewer' }))) as unknown as List
const instant = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/)
const prefix = expect.stringMatching(/^[0-9a-f]{12}$/)
/** Beside the events (extension): a token of the environment bears no name. */
const actorsOf = (event: RegExp) => [
  {
    event_id: expect.stringMatching(event),
    actor_hash_prefix: prefix,
    actor_name: null,
    approver_hash_prefix: null,
    approver_name: null,
  },
]

test('§16: access events have exactly the fields of the specification, and where the list goes on', async () => {
  const query = '?path_template=/v1/admin/nodes&method=GET&status_code=200&actor_role=viewer&limit=1'
  expect(await list('access', query)).toEqual({
    object: 'svc.admin.access_event_list',
    generated_at: instant,
    ...lastPage,
    count: 1,
    method: 'GET',
    path_template: '/v1/admin/nodes',
    status_code: 200,
    actor_role: 'viewer',
    actor: null,
    events: [
      {
        event_id: expect.stringMatching(/^evt_/),
        actor_type: 'admin_token',
        actor_role: 'viewer',
        actor_hash_prefix: prefix,
        method: 'GET',
        path_template: '/v1/admin/nodes',
        query_keys: ['limit'],
        status_code: 200,
        outcome: 'success',
        error_code: null,
        user_agent_hash_prefix: prefix,
        ip_hash_prefix: prefix,
        created_at: instant,
      },
    ],
    actors: actorsOf(/^evt_/),
  })
  const all = await list('access')
  expect(all).toMatchObject({ method: null, path_template: null, status_code: null, actor_role: null })
  expect(all.events.map(({ created_at }) => created_at)).toEqual(
    all.events
      .map(({ created_at }) => created_at)
      .toSorted()
      .toReversed(),
  )
  expect((await list('access', '?status_code=401')).events).toMatchObject([{ actor_type: 'unauthenticated' }])
})

test('§16: approval events have exactly the fields of the specification, and where the list goes on', async () => {
  const [customer] = await ids()
  const query = `?action=customer.create&category=billing&target_type=customer&target_id=${customer}&actor_role=admin`
  expect(await list('approval', query)).toEqual({
    object: 'svc.admin.approval_event_list',
    generated_at: instant,
    ...lastPage,
    count: 1,
    action: 'customer.create',
    category: 'billing',
    target_type: 'customer',
    target_id: customer,
    actor_role: 'admin',
    actor: null,
    events: [
      {
        event_id: expect.stringMatching(/^apv_/),
        action: 'customer.create',
        category: 'billing',
        target_type: 'customer',
        target_id: customer,
        actor_type: 'admin_token',
        actor_role: 'admin',
        approval_policy: 'admin_approval_policy_v1',
        reason: 'because',
        confirmation: null,
        metadata: { state: expect.stringMatching(/^[0-9a-f]{64}$/) },
        created_at: instant,
      },
    ],
    actors: actorsOf(/^apv_/),
  })
  expect(await list('approval')).toMatchObject({ count: 3, action: null, target_id: null })
  expect(await list('approval', '?target_id=nobody')).toMatchObject({ count: 0, events: [] })
})

test('§16: command events have exactly the fields of the specification, and where the list goes on', async () => {
  const { events } = await list('command')
  expect(await list('command', `?command_id=${events[0]?.command_id}&action=node.drain&actor_role=operator`)).toEqual({
    object: 'svc.admin.command_event_list',
    generated_at: instant,
    ...lastPage,
    count: 1,
    command_id: events[0]?.command_id,
    action: 'node.drain',
    actor_role: 'operator',
    actor: null,
    events: [
      {
        event_id: expect.stringMatching(/^evt_/),
        command_id: expect.stringMatching(/^cmd_/),
        action: 'node.drain',
        actor_type: 'admin_token',
        actor_role: 'operator',
        reason: 'works',
        metadata: { node_state: 'draining' },
        created_at: instant,
      },
    ],
    actors: actorsOf(/^evt_/),
  })
})

test('§17: bounds of the filters', async () => {
  const status = async (query: string) =>
    (await gateway.ask('GET', `/v1/admin/access-events${query}`, { as: 'viewer' })).status
  const long = (length: number) => `?path_template=${'x'.repeat(length)}`
  const good = ['?limit=1', '?limit=1000', '?status_code=100', '?status_code=599', long(1), long(128), '?unknown=1']
  const bad = ['?limit=0', '?limit=1001', '?status_code=99', '?status_code=600', '?status_code=2e2', long(129)]
  const worse = ['?path_template=', '?method=get', '?actor_role=root', '?actor_role=ADMIN', '?limit=1&limit=2']
  for (const query of good) expect([query, await status(query)]).toEqual([query, 200])
  for (const query of [...bad, ...worse]) expect([query, await status(query)]).toEqual([query, 400])
})

test('§32: each list of events goes on by its cursor and its Link, within a range, and its table has every page', async () => {
  for (const kind of ['access', 'approval', 'command'] as const) {
    const whole = await list(kind, '?limit=1000')
    // Reading the lists is itself an admin call: later pages are read up to the moment before.
    const to = new Date(Date.parse(String(whole.events[0]?.created_at)) + 1).toISOString()
    const seen: unknown[] = []
    let path: string | undefined = `/v1/admin/${kind}-events?limit=1&to=${to}`
    while (path !== undefined) {
      const response: Response = await gateway.ask('GET', path, { as: 'viewer' })
      const page = (await json(response)) as {
        events: readonly unknown[]
        next_cursor: string | null
        truncated: boolean
      }
      seen.push(...page.events)
      expect(page.truncated).toBe(page.next_cursor !== null)
      path = /^<[^>]*?(\/v1\/admin[^>]*)>; rel="next"$/.exec(response.headers.get('link') ?? '')?.[1]
    }
    const { events } = await list(kind, `?limit=1000&to=${to}`)
    expect(seen).toEqual([...events])
    const table = await (
      await gateway.ask('GET', `/v1/admin/${kind}-events?format=csv&to=${to}`, { as: 'viewer' })
    ).text()
    expect(table.split('\r\n').length).toBe(events.length + 2)
    const none = await list(kind, `?to=${new Date(0).toISOString()}`)
    expect([none.count, none.events]).toEqual([0, []])
  }
  const wrong = await gateway.ask('GET', '/v1/admin/access-events?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z', {
    as: 'viewer',
  })
  expect([wrong.status, (await json(wrong)).code]).toEqual([400, 'invalid_parameter'])
})
