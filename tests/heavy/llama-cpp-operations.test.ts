import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type LlamaServer, llamaPython, startLlamaServer } from '../support/nodes/llama-server.ts'

/** What llama.cpp's own server answers directly, against what comes through a whole gateway. Needs Python and PyPI. */
const python = await llamaPython()
if (python === null)
  console.log('skipped: the packages of tests/support/nodes/llama-server.ts cannot be installed from PyPI')

type Json = Record<string, unknown>
interface Served {
  readonly server: LlamaServer
  readonly model: string
}

describe.skipIf(python === null)('§28 with a real llama.cpp', () => {
  let gateway: TestGateway
  let customer: TestCustomer
  let chat: Served
  let embed: Served
  let rank: Served
  const servers: LlamaServer[] = []

  async function serve(purpose: 'chat' | 'embed' | 'rank'): Promise<Served> {
    const server = await startLlamaServer(python ?? '', { contextTokens: 2_048, slots: 1, purpose })
    servers.push(server)
    await gateway.node(server.url, { customerId: customer.customerId })
    const models = (await (await fetch(`${server.url}/v1/models`)).json()) as { data: { id: string }[] }
    return { server, model: models.data[0]?.id ?? '' }
  }
  beforeAll(async () => {
    gateway = await startTestGateway()
    customer = await gateway.customer()
    chat = await serve('chat')
    embed = await serve('embed')
    rank = await serve('rank')
  }, 120_000)
  afterAll(async () => {
    await gateway.stop()
    for (const server of servers) await server.stop()
  })

  async function post(url: string, body: Json): Promise<Json> {
    const response = await postJson(url, customer.key, body)
    const text = await response.text()
    if (response.status !== 200) throw new Error(`${url}: ${response.status} ${text}`)
    return JSON.parse(text) as Json
  }
  /** The same request to the server itself, under its name for the model, and to the gateway, under the public one. */
  async function both({ server, model }: Served, path: string, body: Json): Promise<readonly [Json, Json]> {
    const listed = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
    const { data } = (await listed.json()) as { data: { id: string }[] }
    const known = data.find(({ id }) => model.includes(id) || id.includes(model))?.id ?? ''
    const direct = await post(server.url + path, { ...body, model })
    return [direct, await post(gateway.url + path, { ...body, model: known })]
  }
  const greedy = { temperature: 0, max_tokens: 16 }

  test('completions are the same', async () => {
    const [direct, through] = await both(chat, '/v1/completions', { prompt: 'the a of and', ...greedy })
    const seen = ({ choices, usage }: Json) => {
      const [{ text, finish_reason, index }] = choices as [Json]
      const { prompt_tokens, completion_tokens, total_tokens } = usage as Json
      return { text, finish_reason, index, prompt_tokens, completion_tokens, total_tokens }
    }
    expect(seen(through)).toEqual(seen(direct))
    expect(seen(through).completion_tokens).toBe(16)
  })

  test('messages are the same', async () => {
    const messages = [{ role: 'user', content: 'the a of and' }]
    const [direct, through] = await both(chat, '/v1/messages', { messages, system: 'to in is', ...greedy })
    const seen = ({ type, role, content, stop_reason, usage }: Json) => ({
      type,
      role,
      content: (content as Json[]).map((block) => [block.type, block.text]),
      stop_reason,
      output_tokens: (usage as Json).output_tokens,
    })
    expect(seen(through)).toEqual(seen(direct))
    expect(seen(through).stop_reason).toBe('max_tokens')
  })

  test('responses are the same', async () => {
    const asked = { input: 'the a of and', instructions: 'to in is', temperature: 0, max_output_tokens: 16 }
    const [direct, through] = await both(chat, '/v1/responses', asked)
    const seen = ({ object, output, usage }: Json) => ({
      object,
      output: (output as Json[]).map(({ type, role, content }) => [
        type,
        role,
        (content as Json[]).map(({ text }) => text),
      ]),
      output_tokens: (usage as Json).output_tokens,
    })
    expect(seen(through)).toEqual(seen(direct))
  })

  const counted = async (path: string, body: Json) => {
    const listed = await fetch(`${gateway.url}/v1/models`, { headers: { authorization: `Bearer ${customer.key}` } })
    const { data } = (await listed.json()) as { data: { id: string }[] }
    const model = data.find(({ id }) => chat.model.includes(id))?.id ?? ''
    return post(gateway.url + path, { ...body, model })
  }

  test('a count is what the server reads of the same chat, to the token', async () => {
    const turns = [
      { role: 'user', content: 'the a of and' },
      { role: 'assistant', content: 'to in is é 日' },
      { role: 'user', content: 'it on as <s> the' },
    ]
    const tool = { name: 'weather', description: 'the a', input_schema: { type: 'object', properties: {} } }
    for (const more of [{}, { system: 'to in is' }, { tools: [tool] }]) {
      const asked = { messages: turns, ...more }
      const { usage } = await counted('/v1/messages', { ...asked, max_tokens: 1 })
      const { input_tokens: read, cache_read_input_tokens: cached = 0 } = usage as Record<string, number>
      const { input_tokens, svc } = await counted('/v1/messages/count_tokens', asked)
      expect([input_tokens, svc]).toMatchObject([(read ?? 0) + cached, { usage_estimated: false }])
    }
    const { usage } = await counted('/v1/responses', { input: 'the a of', instructions: 'to in', max_output_tokens: 1 })
    expect(await counted('/v1/responses/input_tokens', { input: 'the a of', instructions: 'to in' })).toMatchObject({
      input_tokens: (usage as Json).input_tokens,
      svc: { usage_estimated: false },
    })
  })

  test('tokens are those of the server, and so is the text of tokens', async () => {
    const text = 'the é 日 of <s> and'
    const direct = await post(`${chat.server.url}/tokenize`, { content: text, add_special: true })
    const told = await counted('/v1/tokenize', { prompt: text, return_token_strs: true })
    expect(told.tokens).toEqual(direct.tokens)
    expect(told).toMatchObject({ count: (direct.tokens as Json[]).length, max_model_len: 2_048 })
    expect(told.token_strs).toContain('<0xE6>')
    const { usage } = await counted('/v1/completions', { prompt: text, max_tokens: 1 })
    expect(told.count).toBe((usage as Json).prompt_tokens)
    const written = await post(`${chat.server.url}/detokenize`, { tokens: direct.tokens })
    expect(await counted('/v1/detokenize', { tokens: told.tokens })).toMatchObject({ prompt: written.content })
    expect(written.content).toContain('é 日 of')
  })

  test('embeddings are the same, as floats and as base64', async () => {
    for (const encoding_format of ['float', 'base64']) {
      const input = ['the a of', 'and to in is']
      const [direct, through] = await both(embed, '/v1/embeddings', { input, encoding_format })
      const seen = ({ data }: Json) => (data as Json[]).map(({ embedding, index }) => ({ embedding, index }))
      expect(seen(through)).toHaveLength(2)
      expect(seen(through)).toEqual(seen(direct))
    }
  })

  test('a ranking is the same, best first', async () => {
    const documents = ['the a of', 'in on as', 'and to in is it on as']
    const [direct, through] = await both(rank, '/v1/rerank', { query: 'the a', documents })
    interface Scored {
      readonly index: number
      readonly relevance_score: number
    }
    const seen = ({ results }: Json) =>
      (results as Scored[])
        .map(({ index, relevance_score }) => ({ index, relevance_score }))
        .toSorted((a, b) => b.relevance_score - a.relevance_score)
    expect(through.results).toEqual(seen(direct))
    expect(seen(through)).toHaveLength(documents.length)
    expect((through.usage as Json).total_tokens).toBe((direct.usage as Json).total_tokens)
  })
})
