import { describe, expect, test } from 'bun:test'
import { type ChatRequest, type ChatResponse, Ollama } from 'ollama'
import { detectRuntime } from '../../../src/runtimes/registry.ts'
import { readConfig } from '../../../src/settings/config.ts'
import { postJson } from '../../support/clients/post-json.ts'
import { startTestGateway, waitFor } from '../../support/gateways/gateway.ts'
import { answeredUsage, answerStream, answerWhole } from '../../support/nodes/scripted-answers.ts'
import { nodeChunk, type ScriptedCall, startScriptedNode } from '../../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../../support/run/fixture.ts'

const model = 'm'
const images = ['iVBORw0KGgo=', '/9j/4AAQ']
const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_PROCESSES: '1', SVC_ALLOWED_HOSTS: 'box.lan' }
const gateway = await fixture(startTestGateway({ env: { ...env, SVC_CORS_ORIGINS: 'https://chat.example' } }))
const customer = await gateway.customer()
const node = await fixture(startScriptedNode(model))
const embedder = await fixture(startScriptedNode('text-embed:latest'))
for (const { url: at } of [node, embedder]) await gateway.node(at, { customerId: customer.customerId })
const url = gateway.ollamaUrl ?? ''
const client = new Ollama({ host: url, headers: { authorization: `Bearer ${customer.key}` } })

const user = (content: string) => ({ role: 'user', content })
const messages = [user('hi')]
const weather = {
  type: 'function',
  function: { name: 'weather', parameters: { type: 'object', properties: { town: { type: 'string' } } } },
}

const whole = (message: object, finish?: string) => answerWhole(node, message, finish)
const streaming = (deltas: readonly object[], finish: string | null, end?: (call: ScriptedCall) => void) =>
  answerStream(node, deltas, finish, end)
const ask = (
  path: string,
  body: object,
  { key = customer.key, headers = {} }: { key?: string; headers?: Record<string, string> } = {},
) => postJson(url + path, key, body, { headers })
const failureOf = (asked: Promise<unknown>) => asked.then(() => null).catch((error: unknown) => error)

describe('§28: what Ollama’s client asks becomes a chat', () => {
  test('options, pictures, calls, results, thoughts and a schema', async () => {
    const sent = whole({ role: 'assistant', content: 'x' })
    const format = { type: 'object', properties: { a: { type: 'integer' } } }
    await client.chat({
      model,
      messages: [
        { role: 'system', content: 'Be brief.' },
        { role: 'user', content: 'Where?', images },
        {
          role: 'assistant',
          content: '',
          thinking: 'hm',
          tool_calls: [{ function: { name: 'weather', arguments: { town: 'Bern' } } }],
        },
        { role: 'tool', content: 'rain', tool_name: 'weather' },
      ],
      tools: [weather],
      format,
      think: 'low',
      keep_alive: '5m',
      options: { temperature: 0.5, top_k: 40, seed: 7, num_ctx: 8192, num_predict: 50, stop: ['END'] },
    })
    expect(await sent).toEqual({
      model,
      stream: false,
      temperature: 0.5,
      top_k: 40,
      seed: 7,
      max_tokens: 50,
      stop: ['END'],
      reasoning_effort: 'low',
      response_format: { type: 'json_schema', json_schema: { name: 'answer', schema: format, strict: true } },
      tools: [weather],
      messages: [
        { role: 'system', content: 'Be brief.' },
        {
          role: 'user',
          content: [
            { type: 'text', text: 'Where?' },
            { type: 'image_url', image_url: { url: `data:image/png;base64,${images[0]}` } },
            { type: 'image_url', image_url: { url: `data:image/jpeg;base64,${images[1]}` } },
          ],
        },
        {
          role: 'assistant',
          content: null,
          tool_calls: [
            { id: 'call_2_0', type: 'function', function: { name: 'weather', arguments: '{"town":"Bern"}' } },
          ],
        },
        { role: 'tool', tool_call_id: 'call_2_0', content: 'rain' },
      ],
    })
  })

  test.each([
    ['by the name of their tool', { tool_name: 'weather' }],
    ['by nothing', {}],
  ])('results that name their call %s answer the open calls in their order, each its own', async (_, named) => {
    const sent = whole({ role: 'assistant', content: 'x' })
    const call = (town: string) => ({ function: { name: 'weather', arguments: { town } } })
    const result = (content: string) => ({ role: 'tool', content, ...named })
    await client.chat({
      model,
      messages: [
        user('Where does it rain?'),
        { role: 'assistant', content: '', tool_calls: [call('Bern'), call('Basel'), call('Chur')] },
        result('rain'),
        result('sun'),
        result('snow'),
      ],
      tools: [weather],
    })
    const { messages: chat } = (await sent) as unknown as {
      messages: readonly { role: string; content: unknown; tool_call_id?: string; tool_calls?: { id: string }[] }[]
    }
    const calls = chat.flatMap(({ tool_calls: made = [] }) => made.map(({ id }) => id))
    expect(new Set(calls).size).toBe(3)
    const results = chat.filter(({ role }) => role === 'tool')
    expect(results.map(({ tool_call_id: id, content }) => [id, content])).toEqual([
      [calls[0], 'rain'],
      [calls[1], 'sun'],
      [calls[2], 'snow'],
    ])
  })

  test('a prompt is a message, with its system prompt, JSON mode and no bound', async () => {
    const sent = whole({ role: 'assistant', content: '{}' })
    await client.generate({
      model,
      prompt: 'hi',
      system: 'Be brief.',
      format: 'json',
      think: false,
      options: { num_predict: -1 },
    })
    expect(await sent).toEqual({
      model,
      stream: false,
      messages: [{ role: 'system', content: 'Be brief.' }, user('hi')],
      response_format: { type: 'json_object' },
      chat_template_kwargs: { enable_thinking: false, thinking: false },
    })
  })

  test.each([
    ['/api/generate', { prompt: 'x', raw: true }, 'raw'],
    ['/api/generate', { prompt: 'x', suffix: 'y' }, 'suffix'],
    ['/api/generate', { prompt: 'x', template: '{{ .Prompt }}' }, 'template'],
    ['/api/generate', { prompt: 'x', context: [1] }, 'context'],
    ['/api/chat', { messages, options: { max_tokens: 1 } }, 'options.max_tokens'],
    ['/api/chat', { messages, options: { temperature: 9 } }, 'options.temperature'],
    ['/api/chat', { messages, format: 'xml' }, 'format'],
    ['/api/chat', { messages: [{ role: 'user', images: [''] }] }, 'messages[0].images[0]'],
    ['/api/embed', { input: [] }, 'input'],
  ])('what cannot be honoured is refused by name: %s %j', async (path, body, param) => {
    const before = node.calls + embedder.calls
    const response = await ask(path, { model, ...body })
    const told = (await response.json()) as { error: string; svc: { code: string; param: string } }
    expect([response.status, told.svc.code, told.svc.param]).toEqual([400, 'invalid_request', param])
    expect(told.error.length).toBeGreaterThan(10)
    expect(node.calls + embedder.calls).toBe(before)
  })
})

describe('§28: answers become Ollama’s', () => {
  test('whole: thoughts, text, calls, the end, the counts and the times', async () => {
    const calls = [{ id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"town":"Bern"}' } }]
    void whole({ role: 'assistant', content: 'I look.', reasoning_content: 'hm', tool_calls: calls }, 'tool_calls')
    const answer = await client.chat({ model, messages, tools: [weather] })
    expect(answer).toMatchObject({
      model,
      message: {
        role: 'assistant',
        content: 'I look.',
        thinking: 'hm',
        tool_calls: [{ function: { name: 'weather', arguments: { town: 'Bern' } } }],
      },
      done: true,
      done_reason: 'stop',
      load_duration: 0,
      prompt_eval_count: 11,
      eval_count: 5,
      svc: { receipt_hash: expect.stringMatching(/^0x/) },
    } as object)
    expect(answer.total_duration).toBeGreaterThanOrEqual(0)
    expect(answer.eval_duration).toBeGreaterThan(0)
    expect(Number.isNaN(Date.parse(String(answer.created_at)))).toBe(false)
  })

  test('length is length, and a prompt’s answer has its own shape', async () => {
    void whole({ role: 'assistant', content: 'so far' }, 'length')
    const answer = await client.generate({ model, prompt: 'hi' })
    expect(answer).toMatchObject({ response: 'so far', done: true, done_reason: 'length', eval_count: 5 })
  })

  test('a stream, line by line: text as it comes, calls whole before the end', async () => {
    streaming(
      [
        { role: 'assistant', content: '' },
        { reasoning: 'hm' },
        { content: 'I ' },
        { content: 'look.' },
        { tool_calls: [{ index: 0, id: 'c1', type: 'function', function: { name: 'weather', arguments: '' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '{"town":' } }] },
        { tool_calls: [{ index: 1, id: 'c2', function: { name: 'weather', arguments: '{}' } }] },
        { tool_calls: [{ index: 0, function: { arguments: '"Bern"}' } }] },
      ],
      'tool_calls',
    )
    const lines: ChatResponse[] = []
    for await (const line of await client.chat({ model, messages, tools: [weather], stream: true })) lines.push(line)
    expect(lines.map(({ message, done }) => [message, done])).toMatchObject([
      [{ content: '', thinking: 'hm' }, false],
      [{ content: 'I ' }, false],
      [{ content: 'look.' }, false],
      [
        {
          content: '',
          tool_calls: [
            { function: { index: 0, name: 'weather', arguments: { town: 'Bern' } } },
            { function: { index: 1, name: 'weather', arguments: {} } },
          ],
        },
        false,
      ],
      [{ content: '' }, true],
    ])
    expect(lines.at(-1)).toMatchObject({ done_reason: 'stop', prompt_eval_count: 11, eval_count: 5 })
  })

  test('it streams where nothing is said of it, as JSON lines', async () => {
    streaming([{ content: 'a' }, { content: 'b' }], 'stop')
    const response = await ask('/api/generate', { model, prompt: 'hi' })
    expect(response.headers.get('content-type')).toBe('application/x-ndjson')
    const lines = (await response.text()).trimEnd().split('\n')
    expect(lines.map((line) => (JSON.parse(line) as { response: string }).response)).toEqual(['a', 'b', ''])
  })

  test('a client that waits hears lines that say nothing', async () => {
    const slow = { SVC_HEADER_COMMIT_MS: '0', SVC_KEEP_ALIVE_MS: '5000', SVC_OLLAMA_LISTEN: '127.0.0.1:0' }
    await using other = await scoped(startTestGateway({ beside: gateway, env: { ...slow, SVC_PROCESSES: '1' } }))
    node.answer(null)
    const response = await postJson(`${other.ollamaUrl}/api/chat`, customer.key, { model, messages })
    const call = await node.next()
    call.open()
    await call.event(nodeChunk({ content: 'late' }))
    await call.event(nodeChunk({}, 'stop', { usage: answeredUsage }))
    call.end()
    const lines = (await response.text())
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as ChatResponse)
    expect(lines.map(({ message }) => message.content)).toEqual(['', 'late', ''])
    expect(lines.map(({ done }) => done)).toEqual([false, false, true])
  })

  test('a node that stops in the middle: the client throws what the line says', async () => {
    streaming([{ content: 'a' }], null, (call) => call.cut('reset'))
    const read = async () => {
      for await (const _ of await client.chat({ model, messages, stream: true }));
    }
    expect(await failureOf(read())).toMatchObject({ message: 'The node stopped responding.' })
  })

  test('a client that aborts stops the node', async () => {
    const gone = Promise.withResolvers<void>()
    node.answer(async (call) => {
      call.open()
      await call.event(nodeChunk({ content: 'a' }))
      await call.gone
      gone.resolve()
    })
    const stream = await client.chat({ model, messages, stream: true })
    const read = async () => {
      for await (const _ of stream) stream.abort()
    }
    expect(await failureOf(read())).toMatchObject({ name: 'AbortError' })
    await gone.promise
  })

  test('embeddings, of many texts and of one', async () => {
    const seen: unknown[] = []
    embedder.answer((call) => {
      const { input } = call.body
      seen.push(call.body)
      const inputs = Array.isArray(input) ? input : [input]
      const data = inputs.map((_, index) => ({ index, embedding: [index, 0.5] }))
      call.respond(200, { data, usage: { prompt_tokens: 7, total_tokens: 7 } })
    })
    const many = await client.embed({ model: 'text-embed', input: ['a', 'b'], dimensions: 2, truncate: true })
    expect(many).toMatchObject({
      model: 'text-embed:latest',
      embeddings: [
        [0, 0.5],
        [1, 0.5],
      ],
      prompt_eval_count: 7,
    })
    expect((await client.embeddings({ model: 'text-embed', prompt: 'a' })).embedding).toEqual([0, 0.5])
    expect(seen).toEqual([
      { model: 'text-embed:latest', input: ['a', 'b'], dimensions: 2 },
      { model: 'text-embed:latest', input: 'a' },
    ])
  })

  test('a mixture answers, whole and streamed, with its trace', async () => {
    void whole({ role: 'assistant', content: 'Answer: 4' })
    const svc = { mixture: { strategy: 'vote', experts: [{ model }, { model }] } }
    const asked = { model, messages, svc } as ChatRequest & { stream?: false }
    expect(await client.chat(asked)).toMatchObject({
      message: { content: 'Answer: 4' },
      prompt_eval_count: 22,
      svc: { mixture: { strategy: 'vote' } },
    } as object)
    const lines: ChatResponse[] = []
    for await (const line of await client.chat({ ...asked, stream: true })) lines.push(line)
    expect(lines.map(({ message }) => message.content).join('')).toBe('Answer: 4')
    expect(lines.at(-1)).toMatchObject({ done: true, prompt_eval_count: 22 })
  })
})

describe('§28: the rest of Ollama’s interface', () => {
  test('models are listed, shown and said to be there', async () => {
    const { models } = await client.list()
    expect(models.map((entry) => [entry.name, entry.model])).toEqual([
      ['m', 'm'],
      ['text-embed:latest', 'text-embed:latest'],
    ])
    expect(models[0]?.digest).toMatch(/^[0-9a-f]{64}$/)
    expect((await client.show({ model })).capabilities).toEqual(['completion', 'tools'])
    expect((await client.show({ model: 'text-embed' })).capabilities).toEqual(['embedding'])
    expect(await failureOf(client.show({ model: 'nothing' }))).toMatchObject({ status_code: 404 })
    expect((await client.ps()).models).toEqual([])
    expect((await client.version()).version).toMatch(/^\d+\.\d+\.\d+$/)
    expect(await (await fetch(url)).text()).toBe('Ollama is running')
  })

  test('a request for nothing says that the model is there, and asks no node that cannot be told', async () => {
    const before = node.calls
    expect(await client.generate({ model, prompt: '' })).toMatchObject({
      response: '',
      done: true,
      done_reason: 'load',
    })
    expect(await client.chat({ model, messages: [] })).toMatchObject({ done: true, done_reason: 'load' })
    expect(await failureOf(client.chat({ model: 'nothing' }))).toMatchObject({ status_code: 404 })
    expect(await failureOf(client.generate({ model, prompt: '', keep_alive: 0 }))).toMatchObject({ status_code: 409 })
    expect(node.calls).toBe(before)
  })

  test('models are managed elsewhere, and the answer says where', async () => {
    const asked = [
      client.pull({ model }),
      client.push({ model }),
      client.create({ model, from: 'x' }),
      client.copy({ source: 'a', destination: 'b' }),
      client.delete({ model }),
      ask('/api/blobs/sha256:00', {}).then(async (response) => {
        throw Object.assign(new Error(((await response.json()) as { error: string }).error), {
          status_code: response.status,
        })
      }),
    ]
    for (const refused of await Promise.all(asked.map(failureOf))) {
      expect(refused).toMatchObject({ status_code: 501 })
      expect((refused as Error).message).toContain('on the nodes')
    }
  })

  test('errors are of the client’s own class, with a text', async () => {
    const stranger = new Ollama({ host: url, headers: { authorization: 'Bearer nonsense' } })
    expect(await failureOf(stranger.list())).toMatchObject({ name: 'ResponseError', status_code: 401 })
    expect(await failureOf(new Ollama({ host: url }).chat({ model, messages }))).toMatchObject({ status_code: 401 })
    expect(await failureOf(client.chat({ model: 'nothing', messages }))).toMatchObject({ status_code: 404 })
    node.answer((call) => call.respond(500, {}))
    expect(await failureOf(client.chat({ model, messages }))).toMatchObject({ status_code: 502 })
    const lost = await fetch(`${url}/api/nothing`)
    expect([lost.status, typeof ((await lost.json()) as { error: unknown }).error]).toEqual([404, 'string'])
    const wrong = await fetch(`${url}/api/chat`)
    expect([wrong.status, wrong.headers.get('allow')]).toEqual([405, 'POST, OPTIONS'])
    const wide = await fetch(`${url}/v1/rerank`, { method: 'POST' })
    expect([wide.status, await wide.json()]).toMatchObject([
      404,
      { error: { message: expect.stringContaining(`${gateway.url}/v1/rerank is there`) } },
    ])
  })

  test('callers without a key act as the one of the settings, within its policy', async () => {
    const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_OLLAMA_KEY: customer.key, SVC_PROCESSES: '1' }
    await using open = await scoped(startTestGateway({ beside: gateway, env }))
    const anybody = new Ollama({ host: open.ollamaUrl ?? '' })
    void whole({ role: 'assistant', content: 'x' })
    const answer = await anybody.chat({ model, messages })
    expect(answer.message.content).toBe('x')
    expect((await anybody.list()).models).toHaveLength(2)
    const { svc } = answer as unknown as { svc: { request_id: string } }
    const receipt = () => gateway.database.sql`select customer_id from receipts where request_id = ${svc.request_id}`
    await waitFor('the receipt', async () => (await receipt()).length === 1)
    expect([...(await receipt())]).toEqual([{ customer_id: customer.customerId }])
    const other = await fetch(`${open.url}/v1/chat/completions`, { method: 'POST' })
    expect([other.status, await other.json()]).toMatchObject([401, { error: { code: 'missing_credentials' } }])
    const wrong = new Ollama({ host: open.ollamaUrl ?? '', headers: { authorization: 'Bearer nonsense' } })
    expect(await failureOf(wrong.list())).toMatchObject({ status_code: 401 })
  })

  test('it answers to loopback’s names and to those that are allowed, and to no other', async () => {
    const { port } = new URL(url)
    const statuses: Record<string, number> = {}
    for (const host of [
      'localhost',
      '127.0.0.1',
      '[::1]',
      'LOCALHOST.',
      'box.lan',
      'evil.example',
      '10.9.9.9',
      'localhost.evil.example',
    ]) {
      const response = await fetch(`${url}/api/tags`, {
        headers: { host: `${host}:${port}`, authorization: `Bearer ${customer.key}` },
      })
      statuses[host] = response.status
      if (response.status === 421)
        expect(((await response.json()) as { error: string }).error).toContain('SVC_ALLOWED_HOSTS')
    }
    expect(statuses).toEqual({
      localhost: 200,
      '127.0.0.1': 200,
      '[::1]': 200,
      'LOCALHOST.': 200,
      'box.lan': 200,
      'evil.example': 421,
      '10.9.9.9': 421,
      'localhost.evil.example': 421,
    })
  })

  test('a page of a named origin may call it; one of another may neither read it nor post to it', async () => {
    const preflight = (origin: string) =>
      fetch(`${url}/api/chat`, { method: 'OPTIONS', headers: { origin, 'access-control-request-method': 'POST' } })
    const allowed = ({ headers }: Response) => headers.get('access-control-allow-origin')
    expect(allowed(await preflight('https://chat.example'))).toBe('https://chat.example')
    expect(allowed(await preflight('https://evil.example'))).toBeNull()
    const before = node.calls
    const page = { origin: 'https://evil.example', 'content-type': 'text/plain' }
    const simple = await ask('/api/chat', { model, messages }, { headers: page })
    expect([simple.status, node.calls]).toEqual([415, before])
  })

  test('no gateway takes it for a model server', async () => {
    const get = (path: string) => fetch(url + path, { headers: { authorization: `Bearer ${customer.key}` } })
    expect(await detectRuntime(get)).toBeNull()
    // But for what its version says it would be one.
    const unnamed = async (path: string) =>
      path === '/api/version' ? new Response(JSON.stringify({ version: '0.13.0' })) : get(path)
    expect((await detectRuntime(unnamed))?.kind).toBe('ollama')
  })

  test.each([
    ['SVC_OLLAMA_LISTEN', '11434'],
    ['SVC_OLLAMA_LISTEN', '127.0.0.1:99999'],
    ['SVC_OLLAMA_LISTEN', '[nonsense]:1'],
    ['SVC_OLLAMA_KEY', 'sk-1'],
    ['SVC_ALLOWED_HOSTS', 'box.lan:80'],
  ])('%s cannot be %s', (name, value) => {
    expect(readConfig({ [name]: value })).toMatchObject({ faults: [expect.stringContaining(name)] })
  })
})
