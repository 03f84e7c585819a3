import { afterAll, describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { type FakeNode, startFakeNode } from '../../../src/fake-node/fake-node.ts'
import type { Model } from '../../../src/protocol/wire/inference/models.ts'
import { startTestGateway, type TestCustomer, waitFor } from '../../support/gateways/gateway.ts'
import { type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture } from '../../support/run/fixture.ts'

/** The keyed list and what a key may call are the same: both are asked for every model of the pool. */
const open = { min_privacy_class: 'public' } as const
const price = { prompt_token_price_wei: '3', completion_token_price_wei: '5' }
const nodes: (FakeNode | ScriptedNode)[] = []
const nodeIds: Record<string, string> = {}

async function node(name: string, models: readonly string[], customer: TestCustomer, more: object = {}) {
  const server = startFakeNode({ models, name: `${name}-` })
  nodes.push(server)
  nodeIds[name] = await gateway.node(server.url, { customerId: customer.customerId, ...more })
  return nodeIds[name]
}

afterAll(async () => {
  for (const each of nodes) each.stop()
})
const gateway = await fixture(startTestGateway({ env: { SVC_ADMIN_RPM_PER_TOKEN: '1000000' } }))
const owner = await gateway.customer({ policy: { ...open, allow_external: true } })
const seller = await gateway.customer()
await node('home', ['both', 'mine'], owner)
await node('lab', ['lab-only'], owner, { nodeClass: 'lab' })
const away = await node('away', ['hosted'], owner)
await gateway.admin('PATCH', `/v1/admin/nodes/${away}`, { external: true })
await node('farm', ['both', 'sold', 'gift'], seller, { visibility: 'public', privacyClass: 'public' })
await node('friend', ['kept'], seller, { visibility: 'public', privacyClass: 'trusted' })
await node('cellar', ['hidden'], seller)
for (const [model, customer, more] of [
  ['text-embed', seller, { visibility: 'public', privacyClass: 'public' }],
  ['whisper-sold', seller, { visibility: 'public', privacyClass: 'public' }],
  ['whisper-mine', owner, {}],
] as const) {
  const server = startScriptedNode(model)
  server.answer((call) => call.respond(400, { error: { message: 'asked' } }))
  nodes.push(server)
  await gateway.node(server.url, { customerId: customer.customerId, ...more })
}
for (const id of ['both', 'sold', 'text-embed']) await gateway.admin('PUT', '/v1/admin/models', { id, ...price })
/** The owner's: with the policies of every key at first, and one that may pay. */
const plain = owner.key
const paying = await key(open)

/** A key of the owner's, or of an account of its own with this policy. */
async function key(keyPolicy: object | null, more: { scope?: readonly string[]; account?: object } = {}) {
  const { scope, account } = more
  const customerId = account === undefined ? owner.customerId : (await gateway.customer({ policy: account })).customerId
  const made = await gateway.admin<{ gateway_key: string }>('POST', `/v1/admin/customers/${customerId}/keys`, {
    name: 'k',
    ...(keyPolicy === null ? {} : { model_policy: keyPolicy }),
    ...(scope === undefined ? {} : { node_scope: scope.map((name) => nodeIds[name]) }),
  })
  return made.gateway_key
}
const bearer = (token: string) => ({ authorization: `Bearer ${token}` })
async function listed(token: string, path = '/v1/models'): Promise<readonly Model[]> {
  const response = await fetch(gateway.url + path, { headers: bearer(token) })
  expect([path, response.status]).toEqual([path, 200])
  return ((await response.json()) as { data: readonly Model[] }).data
}
const idsOf = (models: readonly Model[]) => models.map(({ id }) => id)

const everything = [
  ...['both', 'gift', 'hidden', 'hosted', 'kept', 'lab-only', 'mine', 'sold'],
  ...['text-embed', 'whisper-mine', 'whisper-sold'],
]
/** Whether a call would be let in; one that costs and cannot be paid is. */
async function mayCall(token: string, model: string): Promise<boolean> {
  const json = { ...bearer(token), 'content-type': 'application/json' }
  const post = (path: string, headers: Record<string, string>, body: string | FormData) =>
    fetch(gateway.url + path, { method: 'POST', headers, body })
  const form = new FormData()
  form.set('model', model)
  form.set('file', new File(['la'], 'a.wav'))
  const answer = model.startsWith('whisper')
    ? await post('/v1/audio/transcriptions', bearer(token), form)
    : model === 'text-embed'
      ? await post('/v1/embeddings', json, JSON.stringify({ model, input: 'x' }))
      : await post('/v1/chat/completions', json, JSON.stringify({ model, messages: [{ role: 'user', content: 'x' }] }))
  const text = await answer.text()
  const asked = answer.status === 200 || answer.status === 402 || text.includes('asked')
  if (!asked && ![403, 404, 503].includes(answer.status)) throw new Error(`${model}: ${answer.status} ${text}`)
  return asked
}

const own = ['both', 'lab-only', 'mine', 'whisper-mine']
const sold = ['gift', 'sold', 'text-embed']

describe('§9: the keyed list is what the key may call', () => {
  const cases: readonly (readonly [string, () => Promise<string>, readonly string[]])[] = [
    ['by default: own nodes only', async () => plain, own],
    ['where account and key allow public nodes: theirs as well', async () => paying, [...own, ...sold, 'kept']],
    ['trusted ones alone', () => key({ min_privacy_class: 'trusted' }), [...own, 'kept']],
    ['where the account says no, the key’s word is none', () => key(open, { account: {} }), []],
    ['an account without nodes', () => key(open, { account: open }), ['both', 'gift', 'kept', 'sold', 'text-embed']],
    ['hosted providers by the word of both', () => key({ allow_external: true }), [...own, 'hosted']],
    [
      'a denied model',
      () => key({ ...open, denied_models: ['s*', 'mine'] }),
      ['both', 'gift', 'kept', 'lab-only', 'text-embed', 'whisper-mine'],
    ],
    ['classes of nodes', () => key({ ...open, route_tiers: ['lab'] }), ['lab-only']],
    ['a scope of nodes', () => key(open, { scope: ['lab', 'farm'] }), ['both', 'gift', 'lab-only', 'sold']],
  ]
  test.each(cases)('%s', async (_, make, expected) => {
    const token = await make()
    expect(idsOf(await listed(token))).toEqual([...expected].sort())
    const called: string[] = []
    for (const model of everything) if (await mayCall(token, model)) called.push(model)
    expect(called).toEqual([...expected].sort())
  })

  test('each says whose it is and what it costs; below /v1/api the members of the specification', async () => {
    const said = Object.fromEntries((await listed(paying)).map(({ id, svc }) => [id, [svc.own, svc.price]]))
    expect(said).toMatchObject({
      mine: [true, null],
      both: [true, price],
      sold: [false, price],
      gift: [false, null],
      'text-embed': [false, price],
    })
    const bare = await listed(paying, '/v1/api/models')
    expect(idsOf(bare)).toEqual(idsOf(await listed(paying)))
    for (const item of bare) expect(Object.keys(item).sort()).toEqual(['created', 'id', 'object', 'owned_by'])
    const one = await fetch(`${gateway.url}/v1/models/sold`, { headers: bearer(paying) })
    expect(await one.json()).toMatchObject({ id: 'sold', svc: { own: false, price } })
    const unknown = await fetch(`${gateway.url}/v1/models/sold`, { headers: bearer(plain) })
    expect(unknown.status).toBe(404)
    const both = (await listed(plain)).find(({ id }) => id === 'both')
    expect(both?.svc).toMatchObject({ own: true, price: null })
  })

  test('a model of others that stops being public leaves the list', async () => {
    expect(idsOf(await listed(paying))).toContain('kept')
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeIds.friend}`, { visibility: 'private' })
    expect(idsOf(await listed(paying))).not.toContain('kept')
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeIds.friend}`, { visibility: 'public' })
  })
})

describe('§9: without a key', () => {
  const ask = (path: string, headers: Record<string, string> = {}) => fetch(gateway.url + path, { headers })

  test('the list is that of public nodes, with the price for whoever has none of its own', async () => {
    const { data } = (await (await ask('/v1/models')).json()) as { data: readonly Model[] }
    expect(idsOf(data)).toEqual(['both', 'gift', 'kept', 'sold'])
    expect(data.map(({ svc }) => [svc.own, svc.price])).toEqual([
      [false, price],
      [false, null],
      [false, null],
      [false, price],
    ])
  })

  test('where nothing is public the list asks for a key below /v1, and is empty below /v1/api', async () => {
    for (const name of ['farm', 'friend']) {
      await gateway.admin('PATCH', `/v1/admin/nodes/${nodeIds[name]}`, { visibility: 'private' })
    }
    try {
      for (const path of ['/v1/models', '/v1/models/mine', '/v1/models/nothing']) {
        const response = await ask(path)
        expect([path, response.status, response.headers.get('www-authenticate')]).toEqual([
          path,
          401,
          'Bearer realm="svc"',
        ])
        // A page must be able to read why.
        expect(response.headers.get('access-control-allow-origin')).toBe('*')
        expect(response.headers.get('cache-control')).toBe('no-store')
        expect(await response.json()).toMatchObject({
          error: { code: 'missing_credentials', message: expect.stringContaining('svc_gateway_') },
        })
      }
      const anthropic = await ask('/v1/models', { 'anthropic-version': '2023-06-01' })
      expect([anthropic.status, await anthropic.json()]).toMatchObject([401, { type: 'error' }])
      const open = await ask('/v1/api/models')
      expect([open.status, await open.json()]).toEqual([200, { object: 'list', data: [] }])
      expect((await ask('/v1/api/models/mine')).status).toBe(404)
      const keyless = new OpenAI({ apiKey: 'none', baseURL: `${gateway.url}/v1`, maxRetries: 0 })
      expect(await keyless.models.list().catch((error: unknown) => error)).toMatchObject({ status: 401 })
    } finally {
      for (const name of ['farm', 'friend']) {
        await gateway.admin('PATCH', `/v1/admin/nodes/${nodeIds[name]}`, { visibility: 'public' })
      }
      await waitFor('the public list', async () => (await ask('/v1/models')).ok)
    }
  })

  test('a key that may call nothing gets an empty list: it is known', async () => {
    expect(await listed(await key(null, { account: {} }))).toEqual([])
  })
})
