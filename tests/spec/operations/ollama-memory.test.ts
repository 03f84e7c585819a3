import { afterEach, beforeEach, describe, expect, test } from 'bun:test'
import { Ollama } from 'ollama'
import { startFakeNode } from '../../../src/fake-node/fake-node.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { enrollmentToken, startAgent, untilState } from '../../support/nodes/agents.ts'
import { type OllamaNode, startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const messages = [{ role: 'user', content: 'hi' }]
const open = { min_privacy_class: 'public' }
let node: OllamaNode
let nodeId: string

const models = ['writer:latest', 'text-embed:latest']
async function startNode(options: Partial<Parameters<typeof startOllamaNode>[0]> = {}): Promise<void> {
  node = startOllamaNode({ models, ...options })
  nodeId = await gateway.node(node.url, { customerId: customer.customerId })
}
async function endNode(): Promise<void> {
  await gateway.admin('DELETE', `/v1/admin/nodes/${nodeId}`)
  node.finishLoads()
  node.stop()
}

const clientOf = (key: string) => new Ollama({ host: url, headers: { authorization: `Bearer ${key}` } })

const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1', SVC_ADMIN_RPM_PER_TOKEN: '1000000' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const plain = await fixture(startFakeNode({ models: ['plain'] }))
await gateway.node(plain.url, { customerId: customer.customerId })
const url = gateway.ollamaUrl ?? ''
const client = clientOf(customer.key)

const post = (path: string, body: object, key = customer.key, signal?: AbortSignal) =>
  fetch(url + path, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}` },
    body: JSON.stringify(body),
    ...(signal === undefined ? {} : { signal }),
  })
const told = () => node.calls.filter(({ path }) => path !== '/v1/chat/completions')
const inMemory = async () => (await client.ps()).models.map(({ name }) => name)
async function refusalOf(answer: Promise<Response>): Promise<unknown> {
  const response = await answer
  return [response.status, await response.json()]
}

describe('§28: what asks nothing with keep_alive 0 unloads a model from one’s own nodes', () => {
  beforeEach(() => startNode())
  afterEach(endNode)

  test.each([
    ['/api/generate', { keep_alive: 0 }, { response: '' }],
    ['/api/generate', { prompt: '', keep_alive: '0s' }, { response: '' }],
    ['/api/chat', { keep_alive: 0 }, { message: { role: 'assistant', content: '' } }],
    ['/api/chat', { messages: [], keep_alive: '0' }, { message: { role: 'assistant', content: '' } }],
  ])('%s with %j', async (path, body, said) => {
    await client.generate({ model: 'writer', prompt: '' })
    expect(await inMemory()).toEqual(['writer:latest'])
    const response = await post(path, { model: 'writer', ...body })
    expect(response.status).toBe(200)
    expect(await response.json()).toEqual({
      model: 'writer:latest',
      created_at: expect.stringMatching(/Z$/),
      ...said,
      done: true,
      done_reason: 'unload',
    })
    expect([...node.loaded]).toEqual([])
    expect(await inMemory()).toEqual([])
    expect(told().at(-1)).toEqual({ path: '/api/generate', body: { model: 'writer:latest', keep_alive: 0 } })
    expect(node.chats).toBe(0)
  })

  test('an Ollama that answers before the model is gone is asked again until it is', async () => {
    await endNode()
    await startNode({ saysLoadedFor: 2 })
    await client.generate({ model: 'writer', prompt: '' })
    await client.generate({ model: 'writer', prompt: '', keep_alive: 0 })
    expect(await inMemory()).toEqual([])
  })

  test('right after a chat, which loaded it: what the last poll saw of the memory does not decide', async () => {
    await client.chat({ model: 'writer', messages })
    expect([...node.loaded]).toEqual(['writer:latest'])
    await client.generate({ model: 'writer', prompt: '', keep_alive: 0 })
    expect([...node.loaded]).toEqual([])
  })

  test('a model that only embeds', async () => {
    await client.embed({ model: 'text-embed', input: 'hi' })
    await client.generate({ model: 'text-embed', prompt: '', keep_alive: 0 })
    expect(told().at(-1)).toEqual({ path: '/api/generate', body: { model: 'text-embed:latest', keep_alive: 0 } })
  })

  test('of all nodes that have it', async () => {
    const second = startOllamaNode({ models })
    const id = await gateway.node(second.url, { customerId: customer.customerId })
    try {
      for (const at of [nodeId, id]) {
        await gateway.admin('POST', `/v1/admin/nodes/${at}/models/load`, { model: 'writer' })
      }
      await client.generate({ model: 'writer', prompt: '', keep_alive: 0 })
      expect([node.loaded.size, second.loaded.size]).toEqual([0, 0])
    } finally {
      await gateway.admin('DELETE', `/v1/admin/nodes/${id}`)
      second.stop()
    }
  })

  test('something that is asked with keep_alive 0 is answered, and nothing is unloaded', async () => {
    expect((await client.generate({ model: 'writer', prompt: 'hi', keep_alive: 0 })).response).toBe('two words')
    expect([told(), [...node.loaded]]).toEqual([[], ['writer:latest']])
  })

  test('no model of that name, and one that the policy forbids', async () => {
    expect(await refusalOf(post('/api/generate', { model: 'nothing', keep_alive: 0 }))).toMatchObject([
      404,
      { error: expect.any(String), svc: { code: 'model_not_found' } },
    ])
    const path = `/v1/admin/customers/${customer.customerId}/keys`
    const { gateway_key: key } = await gateway.admin<{ gateway_key: string }>('POST', path, {
      name: 'few',
      model_policy: { denied_models: ['writer'] },
    })
    expect(await refusalOf(post('/api/generate', { model: 'writer', keep_alive: 0 }, key))).toMatchObject([
      403,
      { svc: { code: 'model_not_allowed' } },
    ])
    expect(told()).toEqual([])
  })

  test('a server that cannot be told: 409', async () => {
    expect(await refusalOf(post('/api/generate', { model: 'plain', keep_alive: 0 }))).toMatchObject([
      409,
      { error: 'The server of this model cannot be told', svc: { code: 'invalid_state' } },
    ])
  })

  test('somebody else’s node is left alone: 403, and a load is left to the first request', async () => {
    const other = await gateway.customer()
    const account = `/v1/admin/customers/${other.customerId}`
    await gateway.admin('PATCH', account, { gateway_policy: open })
    const { gateway_key: key } = await gateway.admin<{ gateway_key: string }>('POST', `${account}/keys`, {
      name: 'open',
      model_policy: open,
    })
    await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { visibility: 'public', privacy_class: 'public' })
    expect(await (await post('/api/generate', { model: 'writer' }, key)).json()).toMatchObject({ done_reason: 'load' })
    expect(await refusalOf(post('/api/generate', { model: 'writer', keep_alive: 0 }, key))).toMatchObject([
      403,
      { error: expect.stringContaining('nodes of your own'), svc: { code: 'own_nodes_only', param: 'keep_alive' } },
    ])
    expect(told()).toEqual([])
  })

  test('it counts as a request of the account’s limits', async () => {
    const account = `/v1/admin/customers/${customer.customerId}`
    await gateway.admin('PATCH', account, { gateway_policy: { rate_limit_rpm: 1 } })
    try {
      expect((await post('/api/generate', { model: 'writer', keep_alive: 0 })).status).toBe(200)
      expect((await post('/api/generate', { model: 'writer', keep_alive: 0 })).status).toBe(429)
    } finally {
      await gateway.admin('PATCH', account, { gateway_policy: null })
    }
  })
})

describe('§28: what asks nothing loads a model on one’s own node, and is answered when it is loaded', () => {
  afterEach(endNode)

  test('it waits for the load; what is in memory is not asked for again', async () => {
    await startNode({ holdLoads: true })
    let answered = false
    const loading = client.generate({ model: 'writer', prompt: '' }).finally(() => {
      answered = true
    })
    await waitFor('the load', () => node.waiting === 1)
    expect(answered).toBe(false)
    node.finishLoads()
    expect(await loading).toMatchObject({ model: 'writer:latest', response: '', done: true, done_reason: 'load' })
    expect(await inMemory()).toEqual(['writer:latest'])
    expect(await client.chat({ model: 'writer', messages: [] })).toMatchObject({ done_reason: 'load' })
    expect(told()).toEqual([{ path: '/api/generate', body: { model: 'writer:latest' } }])
  })

  test('a load that fails is the node’s failure', async () => {
    await startNode({ holdLoads: true })
    node.failLoads()
    expect(await refusalOf(post('/api/generate', { model: 'writer' }))).toMatchObject([
      502,
      { error: expect.any(String), svc: { code: 'upstream_error' } },
    ])
  })

  test('a client that leaves ends the request, and the load goes on', async () => {
    await startNode({ holdLoads: true })
    const gone = new AbortController()
    const asked = post('/api/generate', { model: 'writer' }, customer.key, gone.signal).catch(() => null)
    await waitFor('the load', () => node.waiting === 1)
    gone.abort()
    await asked
    await waitFor('the record', async () => {
      const [row] = await gateway.database.sql`select status from request_records order by request_id desc limit 1`
      return row?.status === 499
    })
    node.finishLoads()
    await waitFor('the model', () => node.loaded.size === 1)
  })

  test('behind an agent: load and unload', async () => {
    await startNode()
    const { enrollment_token: token } = await enrollmentToken(gateway, customer.customerId)
    await using inner = await scoped(startOllamaNode({ models: ['deep:4b'] }))
    await using agent = await scoped(startAgent({ gatewayUrl: gateway.url, token, runtimes: [inner.url, plain.url] }))
    await untilState(gateway, agent.nodeId, 'ready')
    expect(await client.generate({ model: 'deep:4b', prompt: '' })).toMatchObject({ done_reason: 'load' })
    await waitFor('the load', () => inner.loaded.size === 1)
    await client.generate({ model: 'deep:4b', prompt: '', keep_alive: 0 })
    await waitFor('the end', () => inner.loaded.size === 0)
    // An agent that cannot tell its server says so, to an operator as well.
    const wish = gateway.admin('POST', `/v1/admin/nodes/${agent.nodeId}/models/load`, { model: 'plain' })
    await expect(wish).rejects.toThrow(/409.*invalid_state/s)
    expect(await client.generate({ model: 'plain', prompt: '' })).toMatchObject({ done_reason: 'load' })
  })
})
