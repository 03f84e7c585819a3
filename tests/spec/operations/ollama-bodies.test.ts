import { describe, expect, test } from 'bun:test'
import { startTestGateway } from '../../support/gateways/gateway.ts'
import { startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { fixture } from '../../support/run/fixture.ts'

const messages = [{ role: 'user' as const, content: 'hi' }]
const form = 'application/x-www-form-urlencoded'
const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1', SVC_CORS_ORIGINS: 'https://chat.example' }
const gateway = await fixture(startTestGateway({ env }))
const customer = await gateway.customer()
const node = await fixture(startOllamaNode({ models: ['writer:latest', 'org/deep:4b', 'text-embed:latest'] }))
await gateway.node(node.url, { customerId: customer.customerId })
/** The same, where callers without a key act as the customer. */
const keyless = await fixture(startTestGateway({ beside: gateway, env: { ...env, SVC_OLLAMA_KEY: customer.key } }))
const url = keyless.ollamaUrl ?? ''

interface Sent {
  readonly headers?: Record<string, string>
  readonly at?: string
}
const post = (path: string, body: object, { headers = {}, at = url }: Sent = {}) =>
  fetch(at + path, { method: 'POST', headers, body: JSON.stringify(body) })
async function answerOf(response: Response): Promise<[number, string]> {
  const text = await response.text()
  return [response.status, response.status === 200 ? '' : text]
}

const asked: readonly (readonly [string, object])[] = [
  ['/api/chat', { model: 'writer', messages }],
  ['/api/generate', { model: 'writer', prompt: 'hi' }],
  ['/api/embed', { model: 'text-embed', input: 'hi' }],
  ['/api/embeddings', { model: 'text-embed', prompt: 'hi' }],
  ['/api/show', { model: 'writer' }],
  ['/v1/chat/completions', { model: 'writer', messages }],
  ['/v1/completions', { model: 'writer', prompt: 'hi' }],
  ['/v1/embeddings', { model: 'text-embed', input: 'hi' }],
  ['/v1/responses', { model: 'writer', input: 'hi' }],
  ['/v1/messages', { model: 'writer', max_tokens: 5, messages }],
  ['/v1/messages/count_tokens', { model: 'writer', messages }],
]

describe('§28: a program may call its JSON what it likes on Ollama’s listener, a page may not', () => {
  test.each(asked)('%s, as curl -d sends it and with no type at all', async (path, body) => {
    for (const headers of [{ 'content-type': form }, { 'content-type': 'text/plain; charset=latin1' }, {}]) {
      expect(await answerOf(await post(path, body, { headers }))).toEqual([200, ''])
    }
  })

  test.each(asked)('%s, from a browser', async (path, body) => {
    const chats = node.calls.length
    const browsers: Record<string, string>[] = [
      { origin: 'https://evil.example' },
      { origin: 'null' },
      { origin: 'https://chat.example' },
      { 'sec-fetch-site': 'cross-site' },
      { 'sec-fetch-site': 'none' },
    ]
    for (const browser of browsers) {
      for (const type of [form, 'text/plain', 'multipart/form-data; boundary=x']) {
        const refused = await post(path, body, { headers: { ...browser, 'content-type': type } })
        expect([browser, type, refused.status]).toEqual([browser, type, 415])
        await refused.text()
      }
    }
    expect(node.calls).toHaveLength(chats)
    const json = { ...browsers[0], 'content-type': 'application/json' }
    expect(await answerOf(await post(path, body, { headers: json }))).toEqual([200, ''])
  })

  test('the gateway’s own listener still wants JSON of everybody', async () => {
    for (const [path, body] of asked.filter(([to]) => to.startsWith('/v1'))) {
      const headers = { authorization: `Bearer ${customer.key}`, 'content-type': form }
      const refused = await post(path, body, { headers, at: gateway.url })
      expect([path, refused.status]).toEqual([path, 415])
    }
  })

  test('what is no JSON is still refused, and so is a compressed body', async () => {
    const headers = { 'content-type': form }
    const broken = await fetch(`${url}/api/chat`, { method: 'POST', headers, body: 'model=writer' })
    expect([broken.status, await broken.json()]).toMatchObject([400, { svc: { code: 'invalid_json' } }])
    const zipped = await post('/api/chat', { model: 'writer' }, { headers: { ...headers, 'content-encoding': 'gzip' } })
    expect([zipped.status, await zipped.json()]).toMatchObject([415, { svc: { code: 'unsupported_media_type' } }])
  })
})

describe('§28: a model is named by `model` or `name`, and an empty one is none', () => {
  const ollama = asked.filter(([path]) => path.startsWith('/api'))
  test.each(ollama)('%s', async (path, body) => {
    const { model, ...rest } = body as { readonly model: string }
    const forms = [
      { ...rest, name: model },
      { ...rest, model: '', name: model },
      { ...rest, model: null, name: model },
      { ...rest, model, name: '' },
      { ...rest, model, name: 'nothing' },
    ]
    for (const named of forms) expect(await answerOf(await post(path, named))).toEqual([200, ''])
    for (const unnamed of [rest, { ...rest, model: '' }, { ...rest, model: '', name: '' }, { ...rest, name: null }]) {
      const refused = await post(path, unnamed)
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: expect.stringContaining('model is missing'), svc: { code: 'invalid_request', param: 'model' } },
      ])
    }
    expect((await post(path, { ...rest, name: 7 })).status).toBe(400)
  })
})
