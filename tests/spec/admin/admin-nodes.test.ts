import { expect, setSystemTime, test } from 'bun:test'
import { errorKeptMs } from '../../../src/actors/pool/nodes/pool-node.ts'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { newId } from '../../../src/ids.ts'
import { newAccount, newKey } from '../../support/gateways/accounts.ts'
import { json, startTestGateway } from '../../support/gateways/http-gateway.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitUntil } from '../../support/run/wait-until.ts'

const apiKey = 'upstream-secret-0123456789'

const gateway = await fixture(startTestGateway({ SVC_POLL_INTERVAL_MS: '100' }))
const server = await fixture(startFakeNode({ models: ['m-1'], apiKey }))
const { id: customerId } = await newAccount(gateway)
const key = await newKey(gateway, customerId)

const body = (more: object = {}) => ({
  customer_id: customerId,
  url: server.url,
  visibility: 'private',
  node_class: 'gpu',
  privacy_class: 'private',
  ...more,
})
const register = async (more: object = {}) => {
  const response = await gateway.ask('POST', '/v1/admin/nodes', { as: 'operator', json: body(more) })
  expect(response.status).toBe(201)
  return json(response)
}
const read = async (id: unknown, as: 'viewer' | 'operator' = 'operator') =>
  json(await gateway.ask('GET', `/v1/admin/nodes/${id}`, { as }))
const becomes = (id: unknown, state: string) =>
  waitUntil(`the node is ${state}`, async () => (await read(id)).state === state)

test('§23: a look says what answers at a URL, or what is wrong, and registers nothing', async () => {
  const look = async (json_: object, as: 'viewer' | 'operator' = 'operator') =>
    json(await gateway.ask('POST', '/v1/admin/nodes/probe', { as, json: json_ }))
  const before = await json(await gateway.ask('GET', '/v1/admin/nodes', { as: 'viewer' }))
  const found = await look({ url: `${server.url}/v1/`, api_key: apiKey })
  expect(found).toMatchObject({ code: null, node_id: null, models: [{ id: 'm-1' }] })
  expect(found.says).toMatch(/^A server of the kind \S+ answers there, with m-1\.$/)
  const locked = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response(null, { status: 401 }) })
  expect(await look({ url: locked.url.origin })).toMatchObject({ code: 'unauthorized', models: [], runtime_kind: null })
  await locked.stop(true)
  const other = Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: () => new Response('hello') })
  expect(await look({ url: other.url.origin })).toMatchObject({ code: 'unknown_runtime' })
  await other.stop(true)
  const nobody = await look({ url: other.url.origin })
  expect(nobody).toMatchObject({ code: 'refused', says: expect.stringMatching(/^Nothing listens there/) })
  expect(await look({ url: gateway.url })).toMatchObject({ code: 'invalid_request' })
  expect(await look({ url: 'ftp://x' })).toMatchObject({ code: 'invalid_request' })
  expect(await look({ url: server.url }, 'viewer')).toMatchObject({ code: 'insufficient_role' })
  const after = await json(await gateway.ask('GET', '/v1/admin/nodes', { as: 'viewer' }))
  expect(after.count).toBe(Number(before.count))
})

test('§23: a registered runtime is probed at once and shows state, runtime, models and load', async () => {
  const payout = `0x${'ab'.repeat(20)}`
  const made = await register({ name: 'desk', api_key: apiKey, payout_address: payout, reason: 'new machine' })
  const nodeId = made.node_id
  expect(made).toMatchObject({
    node_id: expect.stringMatching(/^node_[0-9A-Z]{26}$/),
    customer_id: customerId,
    name: 'desk',
    kind: 'runtime',
    url: server.url,
    has_api_key: true,
    visibility: 'private',
    node_class: 'gpu',
    privacy_class: 'private',
    payout_address: payout,
    origin: 'operator',
    admin_state: 'active',
    last_error: null,
  })
  await becomes(nodeId, 'ready')
  const node = await read(nodeId)
  expect(node).toMatchObject({
    state: 'ready',
    in_flight: 0,
    held_until: null,
    runtimes: [
      {
        runtime_id: expect.stringMatching(/^rt_/),
        state: 'ready',
        models: [{ model: 'm-1', upstream_model: 'm-1', ready: true, measured_at: null, ejected_until: null }],
      },
    ],
  })
  expect(JSON.stringify(node)).not.toContain(apiKey)
  await gateway.ask('DELETE', `/v1/admin/nodes/${nodeId}`, { as: 'admin' })
})

test('§23: viewers see state and models, but neither address nor owner nor payout address', async () => {
  const { node_id } = await register({ payout_address: `0x${'cd'.repeat(20)}` })
  const list = await gateway.ask('GET', '/v1/admin/nodes', { as: 'viewer' })
  const text = await list.text()
  expect(JSON.parse(text)).toMatchObject({ object: 'svc.admin.node_list', count: 1 })
  for (const hidden of [server.url, customerId, 'cdcd', String(server.port)]) expect(text).not.toContain(hidden)
  expect(await read(node_id, 'viewer')).toMatchObject({ url: null, customer_id: null, payout_address: null })
  expect(await read(node_id)).toMatchObject({ url: server.url, customer_id: customerId })
  await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
})

test('§23: PATCH changes what it names; the API key can be set and taken away', async () => {
  const { node_id } = await register()
  const patch = async (changes: object) => {
    const response = await gateway.ask('PATCH', `/v1/admin/nodes/${node_id}`, { as: 'operator', json: changes })
    expect(response.status).toBe(200)
    return json(response)
  }
  expect(await patch({ visibility: 'public', privacy_class: 'trusted', name: 'n2' })).toMatchObject({
    visibility: 'public',
    privacy_class: 'trusted',
    name: 'n2',
    url: server.url,
  })
  expect(await patch({ api_key: apiKey })).toMatchObject({ has_api_key: true, name: 'n2' })
  expect(await patch({ api_key: null, node_class: 'cpu' })).toMatchObject({ has_api_key: false, node_class: 'cpu' })
  await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
})

test('§27: an API key stays with the address it was given for', async () => {
  const heard: (string | null)[] = []
  const stranger = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: (request) => {
      heard.push(request.headers.get('authorization'))
      return Response.json({ object: 'list', data: [{ id: 'm-1', object: 'model' }] })
    },
  })
  const url = `http://127.0.0.1:${stranger.port}`
  const { node_id } = await register({ api_key: apiKey })
  const patch = async (change: object, as: 'operator' | 'admin' = 'operator') =>
    json(await gateway.ask('PATCH', `/v1/admin/nodes/${node_id}`, { as, json: change }))
  try {
    // The same address, written otherwise, is no other one.
    expect(await patch({ url: `${server.url}/` })).toMatchObject({ url: server.url, has_api_key: true })
    expect(await patch({ url })).toMatchObject({ url, has_api_key: false })
    await waitUntil('the new address is asked', () => heard.length > 0)
    await becomes(node_id, 'ready')
    expect(new Set(heard)).toEqual(new Set([null]))
    // Back again the key is not there any more, whoever asks for it.
    expect(await patch({ url: server.url }, 'admin')).toMatchObject({ has_api_key: false })
    expect(await patch({ url: server.url, api_key: apiKey })).toMatchObject({ has_api_key: true })
    expect(await patch({ url }, 'admin')).toMatchObject({ has_api_key: false })
    expect(await patch({ url: server.url, api_key: apiKey })).toMatchObject({ url: server.url, has_api_key: true })
    await becomes(node_id, 'ready')
  } finally {
    await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
    await stranger.stop(true)
  }
})

test('§23: one server is one node of its owner, also when an address changes and when two name it at once', async () => {
  const other = startFakeNode({ models: ['m-1'] })
  const post = () => gateway.ask('POST', '/v1/admin/nodes', { as: 'operator', json: body() })
  const answers = await Promise.all([post(), post(), post(), post()])
  expect(answers.map(({ status }) => status).toSorted()).toEqual([201, 409, 409, 409])
  const made = (await Promise.all(answers.map((answer) => json(answer)))).filter((one) => one.code === undefined)
  const moved = await register({ url: other.url })
  const patch = (id: unknown, url: string) =>
    gateway.ask('PATCH', `/v1/admin/nodes/${id}`, { as: 'operator', json: { url } })
  try {
    for (const url of [server.url, `${server.url}/v1`]) {
      const refused = await patch(moved.node_id, url)
      expect([refused.status, (await json(refused)).code]).toEqual([409, 'node_exists'])
    }
    expect((await patch(moved.node_id, `${other.url}/v1`)).status).toBe(200)
  } finally {
    for (const { node_id } of [moved, ...made]) {
      await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
    }
    other.stop()
  }
})

test('a node that is well again shows its last error for five minutes, and not for ever', async () => {
  const moody = startFakeNode({ models: ['m-1'] })
  const { node_id } = await register({ url: moody.url })
  try {
    await becomes(node_id, 'ready')
    moody.setFaults({ kind: 'status500', scope: 'chat' })
    const chat = { model: 'm-1', messages: [{ role: 'user', content: 'hi' }], svc: { node_id } }
    const headers = { authorization: `Bearer ${key}` }
    const failed = await gateway.ask('POST', '/v1/api/chat/completions', { headers, json: chat })
    expect(failed.status).toBe(502)
    moody.clearFaults()
    const { last_error: shown } = (await read(node_id)) as { readonly last_error: { readonly at: string } | null }
    expect(shown).not.toBeNull()
    setSystemTime(new Date(Date.parse(shown?.at ?? '') + errorKeptMs))
    await waitUntil('it is forgotten', async () => (await read(node_id)).last_error === null)
    expect(await read(node_id)).toMatchObject({ state: 'ready' })
  } finally {
    setSystemTime()
    await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
    moody.stop()
  }
})

test('§23: drain, resume and revoke; what already is so stays so, and revoked is for ever', async () => {
  const { node_id } = await register({ api_key: apiKey })
  await becomes(node_id, 'ready')
  const command = (name: string) =>
    gateway.ask('POST', `/v1/admin/nodes/${node_id}/${name}`, { as: 'admin', json: { reason: 'test' } })
  const drained = await json(await command('drain'))
  expect(drained.admin_state).toBe('draining')
  expect(drained.drain_started_at).toBeString()
  expect((await json(await command('drain'))).drain_started_at).toBe(drained.drain_started_at as string)
  await waitUntil('no new work', async () => (await read(node_id)).state !== 'ready')
  expect((await command('resume')).status).toBe(200)
  await becomes(node_id, 'ready')
  expect(await json(await command('revoke'))).toMatchObject({ admin_state: 'revoked', state: 'revoked' })
  expect((await command('revoke')).status).toBe(200)
  for (const name of ['drain', 'resume']) {
    const refused = await command(name)
    expect([name, refused.status, (await json(refused)).code]).toEqual([name, 409, 'invalid_state'])
  }
  const patched = await gateway.ask('PATCH', `/v1/admin/nodes/${node_id}`, { as: 'operator', json: { name: 'x' } })
  expect(patched.status).toBe(409)
})

test('§23: DELETE answers 204, and then the node is unknown', async () => {
  const { node_id } = await register()
  const gone = await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
  expect([gone.status, await gone.text()]).toEqual([204, ''])
  expect(gone.headers.get('x-request-id')).toStartWith('req_')
  for (const [method, path, json_] of [
    ['GET', '', undefined],
    ['PATCH', '', {}],
    ['DELETE', '', undefined],
    ['POST', '/drain', undefined],
    ['POST', '/resume', undefined],
    ['POST', '/revoke', undefined],
  ] as const) {
    const options = json_ === undefined ? {} : { json: json_ }
    const response = await gateway.ask(method, `/v1/admin/nodes/${node_id}${path}`, { as: 'admin', ...options })
    expect([method, path, response.status]).toEqual([method, path, 404])
    expect((await json(response)).code).toBe('node_not_found')
  }
})

test('§1: bodies are strict, the URL is a plain http one, the owner exists', async () => {
  for (const more of [
    { url: 'ftp://x' },
    { url: 'http://user:pass@x' },
    { url: 'http://x/?a=1' },
    { url: 'http://x:0' },
    { url: 'x' },
    { visibility: 'secret' },
    { privacy_class: undefined },
    { node_class: 'a b' },
    { api_key: 'line\nbreak' },
    { payout_address: '0x1' },
    { runtime_id: 'rt_1' },
  ]) {
    const response = await gateway.ask('POST', '/v1/admin/nodes', { as: 'operator', json: body(more) })
    const answer = await json(response)
    expect([more, response.status, answer.code]).toEqual([more, 400, 'invalid_request'])
    expect(JSON.stringify(answer)).not.toContain('user:pass')
  }
  const stranger = await gateway.ask('POST', '/v1/admin/nodes', {
    as: 'operator',
    json: body({ customer_id: 'cus_x' }),
  })
  expect([stranger.status, (await json(stranger)).code]).toEqual([404, 'customer_not_found'])
})

test('§23: explain says which node a request went to and why, without owners for viewers', async () => {
  const { node_id } = await register({ api_key: apiKey })
  await becomes(node_id, 'ready')
  const chat = await gateway.ask('POST', '/v1/api/chat/completions', {
    headers: { authorization: `Bearer ${key}` },
    json: { model: 'm-1', messages: [{ role: 'user', content: 'the-prompt-nobody-may-see' }] },
  })
  expect(chat.status).toBe(200)
  const id = chat.headers.get('x-request-id')
  const explain = (as: 'viewer' | 'operator') => gateway.ask('GET', `/v1/admin/explain?request_id=${id}`, { as })
  const found = await json(await explain('operator'))
  expect(found).toMatchObject({
    object: 'svc.admin.explanation',
    request_id: id ?? '',
    model: 'm-1',
    customer_id: customerId,
    tries: [{ result: 'placed', code: null, routes: [{ node_id, verdict: 'chosen', reason: 'only', own: true }] }],
  })
  const seen = await (await explain('viewer')).text()
  expect(JSON.parse(seen)).toMatchObject({ customer_id: null, model: 'm-1' })
  for (const hidden of [customerId, server.url, 'the-prompt-nobody-may-see']) expect(seen).not.toContain(hidden)
  await gateway.ask('DELETE', `/v1/admin/nodes/${node_id}`, { as: 'admin' })
})

test('§23: explain of an unknown request is 404, without or with a wrong id 400', async () => {
  const status = async (query: string) => {
    const response = await gateway.ask('GET', `/v1/admin/explain${query}`, { as: 'viewer' })
    return [response.status, (await json(response)).code]
  }
  expect(await status(`?request_id=${newId('req')}`)).toEqual([404, 'request_not_found'])
  expect(await status('')).toEqual([400, 'invalid_parameter'])
  expect(await status('?request_id=x')).toEqual([400, 'invalid_parameter'])
})
