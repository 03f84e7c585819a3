import { describe, expect, test } from 'bun:test'
import Anthropic from '@anthropic-ai/sdk'
import OpenAI from 'openai'
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
/** As `curl -d` sends it, with no type unless one is given. */
const send = (path: string, body: object, { headers = {}, at = url }: Sent = {}) =>
  fetch(at + path, { method: 'POST', headers, body: JSON.stringify(body) })
const post = (path: string, body: object, { headers = {}, ...more }: Sent = {}) =>
  send(path, body, { headers: { 'content-type': 'application/json', ...headers }, ...more })
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
  ['/v1/responses/input_tokens', { model: 'writer', input: 'hi' }],
]

describe('§28: OpenAI’s and Anthropic’s paths stand on Ollama’s listener as well', () => {
  const openai = (apiKey: string, at = url) => new OpenAI({ apiKey, baseURL: `${at}/v1`, maxRetries: 0 })
  const anthropic = (apiKey: string, at = url) => new Anthropic({ apiKey, baseURL: at, maxRetries: 0 })
  const failureOf = (call: Promise<unknown>) => call.then(() => null).catch((error: unknown) => error)

  test('OpenAI’s client: chat whole and streamed, completions, embeddings, responses, models', async () => {
    const client = openai(customer.key)
    const chat = await client.chat.completions.create({ model: 'writer', messages })
    expect(chat).toMatchObject({ model: 'writer:latest', choices: [{ message: { content: 'two words' } }] })
    let text = ''
    for await (const chunk of await client.chat.completions.create({ model: 'writer', messages, stream: true })) {
      text += chunk.choices[0]?.delta.content ?? ''
    }
    expect(text).toBe('two words')
    expect((await client.completions.create({ model: 'writer', prompt: 'hi' })).choices[0]?.text).toBe('two words')
    const { data } = await client.embeddings.create({ model: 'text-embed', input: 'hi', encoding_format: 'float' })
    expect(data[0]?.embedding).toEqual([0.5])
    expect((await client.responses.create({ model: 'writer', input: 'hi' })).output_text).toBe('two words')
    expect((await client.responses.inputTokens.count({ model: 'writer', input: 'hi' })).input_tokens).toBeGreaterThan(0)
    const models = (await client.models.list()).data
    expect(models.map(({ id }) => id)).toEqual(['org/deep:4b', 'text-embed:latest', 'writer:latest'])
    expect((await client.models.retrieve('writer')).id).toBe('writer:latest')
    expect((await client.models.retrieve('org/deep:4b')).id).toBe('org/deep:4b')
  })

  test('Anthropic’s client: messages whole and streamed, counts, models', async () => {
    const client = anthropic(customer.key)
    const sent = { model: 'writer', max_tokens: 5, messages }
    expect((await client.messages.create(sent)).content).toMatchObject([{ type: 'text', text: 'two words' }])
    expect(await client.messages.stream(sent).finalText()).toBe('two words')
    expect((await client.messages.countTokens({ model: 'writer', messages })).input_tokens).toBeGreaterThan(0)
    expect((await client.models.list()).data.map(({ id }) => id)).toContain('writer:latest')
    expect((await client.models.retrieve('writer')).display_name).toBe('writer:latest')
  })

  test('a caller without a key acts as that of the settings there, too; a key that is sent must be good', async () => {
    expect((await fetch(`${url}/v1/models`)).status).toBe(200)
    const { data } = (await (await fetch(`${url}/v1/models`)).json()) as { data: { id: string; svc: object }[] }
    expect(data.find(({ id }) => id === 'writer:latest')?.svc).toMatchObject({ own: true })
    // A program that has to have a key often brings a made-up one.
    for (const call of [() => openai('ollama').models.list(), () => anthropic('ollama').models.list()]) {
      expect(await failureOf(call())).toMatchObject({ status: 401 })
    }
    const other = await gateway.customer()
    expect((await openai(other.key).models.list()).data).toEqual([])
    const strict = gateway.ollamaUrl ?? ''
    for (const [path, body] of asked.filter(([to]) => to.startsWith('/v1'))) {
      expect([path, (await post(path, body, { at: strict })).status]).toEqual([path, 401])
    }
    expect((await fetch(`${strict}/v1/models`)).status).toBe(401)
  })

  test('errors have the shape of the path’s own clients', async () => {
    const chat = await failureOf(openai(customer.key).chat.completions.create({ model: 'nothing', messages }))
    expect(chat).toMatchObject({ status: 404, code: 'model_not_found', type: 'invalid_request_error' })
    const message = await failureOf(anthropic(customer.key).messages.create({ model: 'no', max_tokens: 1, messages }))
    expect(message).toMatchObject({ status: 404, error: { type: 'error', error: { type: 'not_found_error' } } })
    const ollama = await post('/api/chat', { model: 'nothing', messages })
    expect(await ollama.json()).toMatchObject({ error: expect.any(String), svc: { code: 'model_not_found' } })
  })

  test('by a name that leads here from elsewhere none of it answers', async () => {
    const host = 'evil.example:11434'
    for (const [path, body] of asked) {
      const refused = await post(path, body, { headers: { host } })
      expect([path, refused.status]).toEqual([path, 421])
      await refused.text()
    }
    for (const path of ['/v1/models', '/v1/models/writer', '/api/tags']) {
      expect([path, (await fetch(url + path, { headers: { host } })).status]).toEqual([path, 421])
    }
  })

  test('forms, which any page may post, and what no Ollama has, stay with the gateway, and the answer says where', async () => {
    for (const path of ['/v1/audio/transcriptions', '/v1/images/edits', '/v1/rerank']) {
      const lost = await fetch(url + path, { method: 'POST', body: new FormData() })
      expect([lost.status, await lost.json()]).toMatchObject([
        404,
        { error: { message: expect.stringContaining(`${keyless.url}${path} is there`) } },
      ])
    }
    for (const path of ['/v1/admin/customers', '/v1/billing/account', '/healthz', '/console']) {
      expect([path, (await fetch(url + path)).status]).toEqual([path, 404])
    }
  })

  test('with or without the tag, whatever server has the model', async () => {
    const tagged = (model: string) => post('/v1/chat/completions', { model, messages })
    expect(await answerOf(await tagged('writer:latest'))).toEqual([200, ''])
    expect((await tagged('writer:other')).status).toBe(404)
  })
})

describe('§28: a program may call its JSON what it likes on Ollama’s listener, a page may not', () => {
  test.each(asked)('%s, as curl -d sends it and with no type at all', async (path, body) => {
    for (const headers of [{ 'content-type': form }, { 'content-type': 'text/plain; charset=latin1' }, {}]) {
      expect(await answerOf(await send(path, body, { headers }))).toEqual([200, ''])
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
        const refused = await send(path, body, { headers: { ...browser, 'content-type': type } })
        expect([browser, type, refused.status]).toEqual([browser, type, 415])
        await refused.text()
      }
    }
    expect(node.calls).toHaveLength(chats)
    const json = { ...browsers[0], 'content-type': 'application/json' }
    expect(await answerOf(await send(path, body, { headers: json }))).toEqual([200, ''])
  })

  test('the gateway’s own listener still wants JSON of everybody', async () => {
    for (const [path, body] of asked.filter(([to]) => to.startsWith('/v1'))) {
      const headers = { authorization: `Bearer ${customer.key}`, 'content-type': form }
      const refused = await send(path, body, { headers, at: gateway.url })
      expect([path, refused.status]).toEqual([path, 415])
    }
  })

  test('what is no JSON is still refused, and so is a compressed body', async () => {
    const headers = { 'content-type': form }
    const broken = await fetch(`${url}/api/chat`, { method: 'POST', headers, body: 'model=writer' })
    expect([broken.status, await broken.json()]).toMatchObject([400, { svc: { code: 'invalid_json' } }])
    const zipped = await send('/api/chat', { model: 'writer' }, { headers: { ...headers, 'content-encoding': 'gzip' } })
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
    for (const named of forms) expect(await answerOf(await send(path, named))).toEqual([200, ''])
    for (const unnamed of [rest, { ...rest, model: '' }, { ...rest, model: '', name: '' }, { ...rest, name: null }]) {
      const refused = await send(path, unnamed)
      expect([refused.status, await refused.json()]).toMatchObject([
        400,
        { error: expect.stringContaining('model is missing'), svc: { code: 'invalid_request', param: 'model' } },
      ])
    }
    expect((await send(path, { ...rest, name: 7 })).status).toBe(400)
  })
})
