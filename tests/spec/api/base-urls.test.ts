import { describe, expect, test } from 'bun:test'
import OpenAI from 'openai'
import { newToken } from '../../../src/secrets.ts'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { nodeAt, startFakeNodes } from '../../support/nodes/fake-nodes.ts'
import { fixture } from '../../support/run/fixture.ts'

const nodes = await fixture(
  startFakeNodes(2, (at) => ({ models: at === 0 ? ['org/chat-model'] : ['nomic-embed-text'] })),
)
const gateway = await fixture(startTestGateway({ env: { SVC_AUTH_FAILURES_PER_MINUTE: '10000' } }))
const customer = await gateway.customer()
for (const at of [0, 1]) await gateway.node(nodeAt(nodes, at).url, { customerId: customer.customerId })

const ask = (path: string, init: RequestInit = {}) => fetch(gateway.url + path, { redirect: 'manual', ...init })
const keyed = (path: string, headers: Record<string, string> = {}) =>
  ask(path, { headers: { authorization: `Bearer ${customer.key}`, ...headers } })
const chatBody = JSON.stringify({ model: 'org/chat-model', messages: [{ role: 'user', content: 'hi' }] })
const chat = (path: string, headers: Record<string, string>) =>
  ask(path, { method: 'POST', body: chatBody, headers: { 'content-type': 'application/json', ...headers } })
interface OpenAiBody {
  readonly error: { readonly message: string; readonly code: string; readonly param: string | null }
}
const errorOf = async (response: Response) => ((await response.json()) as OpenAiBody).error

describe('§28: base URLs', () => {
  test('chat answers below /v1/api and below /v1, the same', async () => {
    for (const base of ['/v1/api', '/v1']) {
      const response = await chat(`${base}/chat/completions`, { authorization: `Bearer ${customer.key}` })
      expect([base, response.status]).toEqual([base, 200])
      expect(await response.json()).toMatchObject({ object: 'chat.completion', model: 'org/chat-model' })
      const wrong = await ask(`${base}/chat/completions`)
      expect([wrong.status, (await errorOf(wrong)).code]).toEqual([405, 'method_not_allowed'])
    }
  })

  test('the root: a browser goes to the console, a program gets the index', async () => {
    const page = await ask('/', { headers: { accept: 'text/html,application/xhtml+xml' } })
    expect([page.status, page.headers.get('location')]).toEqual([302, '/console'])
    const index = await ask('/')
    expect([index.status, index.headers.get('vary')]).toEqual([200, 'Accept'])
    expect(await index.json()).toEqual(await (await ask('/v1/api')).json())
  })

  test.each([
    ['/chat/completions', '/v1/chat/completions is there'],
    ['/v1/v1/chat/completions', '/v1/chat/completions is there'],
    ['/v1/api/v1/models', '/v1/models is there'],
    ['/api/v1/embeddings', '/v1/embeddings is there'],
    ['/v1', 'There is no such path. The base URL'],
    ['/v1/assistants', 'There is no such path. The base URL'],
  ])('a base URL that is wrong is told the right one: %s', async (path, told) => {
    const response = await ask(path, { method: 'POST', body: chatBody })
    const { message, code } = await errorOf(response)
    expect([response.status, code]).toEqual([404, 'route_not_found'])
    expect(message).toContain(told)
    expect(message).toContain(`${gateway.url}/v1`)
  })

  test('other families keep their own errors, and no path is repeated', async () => {
    for (const path of ['/v1/admin/secret-path', '/v1/billing/secret-path', '/secret-path', '/v1/secret-path']) {
      const text = await (await ask(path)).text()
      expect(text).not.toContain('secret-path')
      expect(text.includes('"type":"urn:')).toBe(path !== '/v1/secret-path')
    }
  })
})

describe('§28: credentials', () => {
  test('x-api-key is a gateway key like a bearer', async () => {
    expect((await chat('/v1/chat/completions', { 'x-api-key': customer.key })).status).toBe(200)
    expect((await ask('/v1/models', { headers: { 'x-api-key': customer.key } })).status).toBe(200)
    const wrong = await chat('/v1/chat/completions', { 'x-api-key': newToken('gateway') })
    expect([wrong.status, (await errorOf(wrong)).code]).toEqual([401, 'invalid_api_key'])
  })

  test.each([
    ['admin', 'You sent an admin token in Authorization.'],
    ['viewer', 'You sent a viewer token in Authorization.'],
    ['customer', 'You sent a customer token in Authorization.'],
    ['enroll', 'You sent an enrolment token in Authorization.'],
  ] as const)('the wrong kind is told by its kind: %s', async (kind, told) => {
    for (const path of ['/v1/chat/completions', '/v1/models']) {
      const headers = { authorization: `Bearer ${newToken(kind)}`, 'content-type': 'application/json' }
      const response = await ask(
        path,
        path.endsWith('models') ? { headers } : { method: 'POST', body: chatBody, headers },
      )
      const { message } = await errorOf(response)
      expect([path, response.status]).toEqual([path, 401])
      expect(message).toContain(told)
      expect(message).toContain('svc_gateway_')
    }
  })

  test('an admin token that is valid is told that a key is needed', async () => {
    const { message, param } = await errorOf(
      await chat('/v1/chat/completions', { authorization: `Bearer ${gateway.tokens.admin}` }),
    )
    expect([param, message]).toEqual([
      'header.x-svc-customer-id',
      expect.stringContaining('You sent an admin token in Authorization.'),
    ])
  })
})

describe('§28: models', () => {
  const facts = { object: 'model', created: expect.any(Number), owned_by: 'svc' }
  const svc = { context_length: 8192, loaded: null, own: true, price: null }

  test('below /v1/api the members of the specification, below /v1 what each is for, too', async () => {
    expect(await (await keyed('/v1/api/models')).json()).toEqual({
      object: 'list',
      data: [
        { id: 'nomic-embed-text', ...facts },
        { id: 'org/chat-model', ...facts },
      ],
    })
    expect(await (await keyed('/v1/models')).json()).toEqual({
      object: 'list',
      data: [
        { id: 'nomic-embed-text', ...facts, svc: { ...svc, modality: 'embedding', serves: ['embedding'] } },
        { id: 'org/chat-model', ...facts, svc: { ...svc, modality: 'chat', serves: ['chat'] } },
      ],
    })
  })

  test('one model, by an id with slashes', async () => {
    for (const id of ['org/chat-model', 'org%2Fchat-model']) {
      expect(await (await keyed(`/v1/api/models/${id}`)).json()).toEqual({ id: 'org/chat-model', ...facts })
      expect(await (await keyed(`/v1/models/${id}`)).json()).toMatchObject({ svc: { modality: 'chat' } })
    }
    // The published client encodes the slash.
    for (const path of ['/v1', '/v1/api']) {
      const client = new OpenAI({ baseURL: gateway.url + path, apiKey: customer.key, maxRetries: 0 })
      expect(await client.models.retrieve('org/chat-model')).toMatchObject({ id: 'org/chat-model', object: 'model' })
    }
    const unknown = await keyed('/v1/models/nothing')
    const { code, param } = await errorOf(unknown)
    expect([unknown.status, code, param]).toEqual([404, 'model_not_found', 'model'])
  })

  test('without a key, where no machine is public, one is asked for', async () => {
    const refused = await ask('/v1/models')
    expect([refused.status, (await errorOf(refused)).code]).toEqual([401, 'missing_credentials'])
  })

  test('Anthropic’s clients get their own shapes', async () => {
    const version = { 'anthropic-version': '2023-06-01' }
    const model = (id: string) => ({ type: 'model', id, display_name: id, created_at: expect.stringMatching(/Z$/) })
    expect(await (await keyed('/v1/models', version)).json()).toEqual({
      data: [model('nomic-embed-text'), model('org/chat-model')],
      has_more: false,
      first_id: 'nomic-embed-text',
      last_id: 'org/chat-model',
    })
    expect(await (await keyed('/v1/models/org/chat-model', version)).json()).toEqual(model('org/chat-model'))
    expect(await (await keyed('/v1/models/nothing', version)).json()).toMatchObject({
      type: 'error',
      error: { type: 'not_found_error', svc: { code: 'model_not_found' } },
    })
  })
})
