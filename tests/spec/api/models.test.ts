import { afterAll, expect, test } from 'bun:test'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newToken } from '../../../src/secrets.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

interface Listed {
  readonly object: string
  readonly data: readonly {
    readonly id: string
    readonly object: string
    readonly created: number
    readonly owned_by: string
  }[]
}

const nodes: FakeNode[] = []
const nodeIds: string[] = []
const keys: Record<'alice' | 'bob' | 'scoped' | 'restricted', string> = {
  alice: '',
  bob: '',
  scoped: '',
  restricted: '',
}

async function register(customerId: string, visibility: string, nodeClass: string, models: string[]): Promise<string> {
  const node = startFakeNode({ models, name: `${models[0]}-` })
  nodes.push(node)
  const made = await json(
    await gateway.ask('POST', '/v1/admin/nodes', {
      as: 'operator',
      json: { customer_id: customerId, url: node.url, visibility, node_class: nodeClass, privacy_class: 'private' },
    }),
  )
  nodeIds.push(String(made.node_id))
  return String(made.node_id)
}

async function issue(customerId: string, more: object = {}): Promise<string> {
  const path = `/v1/admin/customers/${customerId}/keys`
  const issued = await json(await gateway.ask('POST', path, { as: 'admin', json: { name: 'k', ...more } }))
  return String(issued.gateway_key)
}

async function customer(display_name: string, gateway_policy: object | null = null): Promise<string> {
  const json_ = { display_name, gateway_policy }
  return String(
    (await json(await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: json_ }))).customer_id,
  )
}

const list = async (key?: string): Promise<Listed> => {
  const response = await gateway.ask('GET', '/v1/api/models', {
    headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
  })
  expect(response.status).toBe(200)
  return (await response.json()) as Listed
}
const ids = async (key?: string) => (await list(key)).data.map(({ id }) => id)

afterAll(async () => {
  for (const node of nodes) node.stop()
})
const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const alice = await customer('Alice')
const bob = await customer('Bob', { denied_models: ['z-*'] })
const home = await register(alice, 'private', 'home', ['b-home', 'a-home'])
await register(alice, 'private', 'lab', ['z-lab'])
await register(bob, 'public', 'farm', ['m-farm', 'z-farm'])
keys.alice = await issue(alice)
keys.scoped = await issue(alice, { node_scope: [home] })
keys.restricted = await issue(alice, { model_policy: { route_tiers: ['lab'] } })
keys.bob = await issue(bob)
await waitUntil('all nodes are ready', () => (gateway.gateway.router.counts().nodes.ready ?? 0) === 3)

test('endpoint 3, rule 1: without a key, models with a ready profile on a public machine, sorted by id', async () => {
  expect(await list()).toEqual({
    object: 'list',
    data: [
      { id: 'm-farm', object: 'model', created: expect.any(Number), owned_by: 'svc' },
      { id: 'z-farm', object: 'model', created: expect.any(Number), owned_by: 'svc' },
    ],
  })
})

test('endpoint 3, rule 2: with a key, what the machines of that account serve, private ones included', async () => {
  expect(await ids(keys.alice)).toEqual(['a-home', 'b-home', 'z-lab'])
})

test('endpoint 3, rule 2: node scope, route tiers and the model policy of account and key filter the list', async () => {
  expect(await ids(keys.scoped)).toEqual(['a-home', 'b-home'])
  expect(await ids(keys.restricted)).toEqual(['z-lab'])
  expect(await ids(keys.bob)).toEqual(['m-farm'])
})

test('endpoint 3, rule 3: no node, runtime, address or customer shows', async () => {
  const text = JSON.stringify([await list(), await list(keys.alice)])
  for (const secret of [...nodeIds, ...nodes.map((node) => String(node.port)), 'rt_', 'cus_', 'mp_']) {
    expect(text).not.toContain(secret)
  }
})

test('§4: a credential that is sent must be valid: never the public list instead', async () => {
  const sent = [
    'Bearer nonsense',
    'Basic abc',
    'Bearer ',
    `Bearer ${newToken('gateway')}`,
    `Bearer ${gateway.tokens.admin}`,
  ]
  for (const authorization of sent) {
    const response = await gateway.ask('GET', '/v1/api/models', { headers: { authorization } })
    expect(response.status).toBe(401)
    expect(response.headers.get('www-authenticate')).toBe('Bearer realm="svc"')
    expect(response.headers.get('access-control-allow-origin')).toBeNull()
    const { error } = (await response.json()) as { error: Record<string, unknown> }
    expect(error).toMatchObject({
      code: 'invalid_api_key',
      type: 'authentication_error',
      param: 'header.authorization',
    })
  }
})

test('§3: a suspended account gets 403', async () => {
  const carol = await customer('Carol')
  const key = await issue(carol)
  expect(await ids(key)).toEqual([])
  await gateway.ask('PATCH', `/v1/admin/customers/${carol}`, { as: 'admin', json: { account_status: 'suspended' } })
  const response = await gateway.ask('GET', '/v1/api/models', { headers: { authorization: `Bearer ${key}` } })
  expect(response.status).toBe(403)
  expect(await json(response)).toMatchObject({ error: { code: 'account_suspended', type: 'permission_error' } })
})

test('§1: the public list may be cached for 5 s and read by any web page, the keyed one neither', async () => {
  const open = await gateway.ask('GET', '/v1/api/models')
  expect(open.headers.get('cache-control')).toBe('public, max-age=5')
  expect(open.headers.get('vary')).toBe('Authorization')
  expect(open.headers.get('access-control-allow-origin')).toBe('*')
  const keyed = await gateway.ask('GET', '/v1/api/models', { headers: { authorization: `Bearer ${keys.alice}` } })
  expect(keyed.headers.get('cache-control')).toBe('private, no-store')
  expect(keyed.headers.get('access-control-allow-origin')).toBeNull()
})

test('§9: a machine that is gone takes its models from the list; none left is an empty list', async () => {
  nodes[2]?.setFaults({ kind: 'refuse' })
  await waitUntil('the public list is empty', async () => (await list()).data.length === 0)
  expect(await list()).toEqual({ object: 'list', data: [] })
})
