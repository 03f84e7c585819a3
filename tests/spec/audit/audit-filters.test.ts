import { expect, test } from 'bun:test'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { addAccess, addCommands } from '../../support/leaks/audit-rows.ts'
import { fixture } from '../../support/run/fixture.ts'

const gateway = await fixture(startTestGateway())
const roles = ['viewer', 'operator', 'admin']
const paths = ['/v1/admin/nodes', '/v1/admin/models', '/v1/admin/customers/:customer_id']
const access = Array.from({ length: 72 }, (_, at) => ({
  method: at % 2 === 0 ? 'GET' : 'POST',
  path: paths[at % 3] ?? '',
  role: roles[Math.floor(at / 2) % 3] ?? '',
  status: [200, 404, 403, 500][Math.floor(at / 6) % 4] ?? 0,
  age: 1 + Math.floor(at / 4),
}))
await addAccess(gateway, access)
const commands = Array.from({ length: 24 }, (_, at) => ({
  action: at % 2 === 0 ? 'node.drain' : 'node.resume',
  role: roles[at % 3] ?? '',
  age: 1 + Math.floor(at / 4),
}))
await addCommands(gateway, commands)
for (let at = 0; at < 48; at++) {
  const [action, category, type] = at % 2 === 0 ? ['node.drain', 'node_control', 'node'] : ['x.y', 'z', 'key']
  const createdAt = new Date(Date.now() - (1 + Math.floor(at / 4)) * 3_600_000).toISOString()
  await gateway.database.sql`
      insert into admin_approval_events (event_id, action, category, target_type, target_id, actor_type, actor_role,
        approval_policy, metadata, created_at, writer_id, seq, mac)
      values (${`apv_${String(at).padStart(26, '0')}`}, ${action}, ${category}, ${type}, ${`t${at % 4}`}, 'admin_token',
        ${roles[at % 3] ?? ''}, 'admin_approval_policy_v1', '{}', ${createdAt}, 'wrk_test', ${at}, '\\x00')`
}

type Event = Readonly<Record<string, string | number | null>>
/** Calls of this test have events as well: they are left out by their paths. */
const own = ({ path_template }: Event) => !String(path_template).endsWith('-events')
async function list(kind: string, filters: Event, limit = 1_000) {
  const query = new URLSearchParams({ limit: String(limit) })
  for (const [name, value] of Object.entries(filters)) query.set(name, String(value))
  const body = await json(await gateway.ask('GET', `/v1/admin/${kind}-events?${query}`, { as: 'viewer' }))
  return { body, events: body.events as readonly Event[] }
}

const kinds = {
  access: { method: 'GET', path_template: '/v1/admin/nodes', status_code: 403, actor_role: 'viewer' },
  approval: {
    action: 'node.drain',
    category: 'node_control',
    target_type: 'node',
    target_id: 't2',
    actor_role: 'operator',
  },
  command: { command_id: null, action: 'node.drain', actor_role: 'operator' },
} as const

test.each(Object.keys(kinds) as (keyof typeof kinds)[])(
  '§16: %s events: every set of filters finds what fits all of them, and is echoed',
  async (kind) => {
    const all = (await list(kind, {})).events.filter(own)
    const wanted: Event = kinds[kind]
    const names = Object.keys(wanted)
    const sample = all.find((event) => names.every((name) => wanted[name] === null || event[name] === wanted[name]))
    for (let set = 0; set < 2 ** names.length; set++) {
      const used = names.filter((_, at) => (set & (1 << at)) !== 0)
      const filters = Object.fromEntries(used.map((name) => [name, wanted[name] ?? sample?.[name] ?? '']))
      const { body, events } = await list(kind, filters)
      const expected = all.filter((event) => used.every((name) => event[name] === filters[name]))
      expect<unknown>([filters, events.filter(own)]).toEqual([filters, expected])
      expect(expected.length).toBeGreaterThan(0)
      expect(body.count).toBe(events.length)
      for (const name of names) expect<unknown>([name, body[name]]).toEqual([name, filters[name] ?? null])
    }
  },
)

test.each(Object.keys(kinds) as (keyof typeof kinds)[])(
  '§16: %s events: newest first, then by id; `limit` takes the newest',
  async (kind) => {
    const all = (await list(kind, kind === 'access' ? { path_template: '/v1/admin/nodes' } : {})).events
    const key = (event: Event) => `${event.created_at} ${event.event_id}`
    expect(all.map(key)).toEqual(all.map(key).toSorted().toReversed())
    const filters = kind === 'access' ? { path_template: '/v1/admin/nodes' } : {}
    for (const limit of [1, 7]) expect((await list(kind, filters, limit)).events).toEqual(all.slice(0, limit))
  },
)

test('§17: limits, lengths and enumerations of every list', async () => {
  const status = async (kind: string, query: string) =>
    (await gateway.ask('GET', `/v1/admin/${kind}-events?${query}`, { as: 'viewer' })).status
  const texts = { access: ['path_template'], approval: ['action', 'category', 'target_type', 'target_id'] } as const
  const filters = { ...texts, command: ['command_id', 'action'] } as const
  for (const [kind, names] of Object.entries(filters)) {
    const good = ['limit=1', 'limit=1000', 'actor_role=admin', 'actor_role=operator', 'actor_role=viewer']
    const bad = ['limit=0', 'limit=1001', 'limit=-1', 'limit=1.0', 'actor_role=root', 'actor_role=', 'actor_role=Admin']
    for (const name of names) {
      good.push(`${name}=x`, `${name}=${'x'.repeat(128)}`)
      bad.push(`${name}=`, `${name}=${'x'.repeat(129)}`, `${name}=a&${name}=b`, `${name}=%00`)
    }
    if (kind === 'access') {
      good.push('status_code=100', 'status_code=599', 'method=GET', 'method=DELETE')
      bad.push('status_code=99', 'status_code=600', 'status_code=', 'status_code=4xx', 'method=get', 'method=')
    }
    for (const query of good) expect([kind, query, await status(kind, query)]).toEqual([kind, query, 200])
    for (const query of bad) expect([kind, query, await status(kind, query)]).toEqual([kind, query, 400])
  }
})

test('§17: without `limit` 100', async () => {
  await addAccess(
    gateway,
    Array.from({ length: 120 }, () => ({ path: '/v1/admin/keys/:key_id' })),
  )
  const path = '/v1/admin/access-events?path_template=/v1/admin/keys/:key_id'
  expect((await json(await gateway.ask('GET', path, { as: 'viewer' }))).count).toBe(100)
})
