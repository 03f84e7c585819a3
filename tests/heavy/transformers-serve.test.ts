import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { postJson } from '../support/clients/post-json.ts'
import { torchPythonWith } from '../support/clients/torch.ts'
import { startTestGateway, type TestCustomer, type TestGateway, waitFor } from '../support/gateways/gateway.ts'
import {
  contextTokens,
  type PythonServer,
  startTransformers,
  transformersPackages,
} from '../support/nodes/torch-servers.ts'

/** `transformers serve` with a tiny random model out of a cache of Hugging Face, behind a whole gateway. */
const found = await torchPythonWith(transformersPackages)
const python = typeof found === 'string' ? null : found.python
if (typeof found === 'string') console.log(`skipped: ${found}`)

const slowMs = 600_000
const model = 'tiny/chat'
const messages = [{ role: 'user', content: 'hi' }]

describe.skipIf(python === null)('§35: transformers serve behind the gateway', () => {
  let server: PythonServer
  let gateway: TestGateway
  let customer: TestCustomer
  let nodeId: string
  beforeAll(async () => {
    server = await startTransformers(python ?? '')
    gateway = await startTestGateway()
    customer = await gateway.customer()
    nodeId = await gateway.node(server.url, { customerId: customer.customerId })
  }, slowMs)
  afterAll(async () => {
    await gateway?.stop()
    await server?.stop()
  })

  const ask = (path: string, body: object, signal?: AbortSignal) =>
    postJson(gateway.url + path, customer.key, { model, ...body }, { signal })
  const runtime = async () => (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).runtimes[0]
  const eventsOf = (text: string) => [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))

  test(
    'its kind, the model of the cache, no context and no slots that it does not tell, and what is in memory',
    async () => {
      const before = await runtime()
      expect(before).toMatchObject({ runtime_kind: 'openai', slots_total: null })
      expect(before?.models).toMatchObject([
        { upstream_model: model, serves: ['chat'], context_length: null, ready: true, loaded: false },
      ])
      const first = await ask('/v1/chat/completions', { messages, max_tokens: 2 })
      expect(first.status).toBe(200)
      await first.body?.cancel()
      await waitFor('the model in memory', async () => (await runtime())?.models[0]?.loaded === true)
    },
    slowMs,
  )

  test('whole and streamed, with its usage, though it ends a stream without [DONE]', async () => {
    const whole = await ask('/v1/chat/completions', { messages, max_tokens: 5, seed: 1 })
    expect(await whole.json()).toMatchObject({
      model,
      choices: [{ finish_reason: 'length', message: { role: 'assistant', content: expect.any(String) } }],
      usage: { prompt_tokens: 5, completion_tokens: 5 },
    })
    const text = await (await ask('/v1/chat/completions', { messages, max_tokens: 5, stream: true })).text()
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
    const chunks = eventsOf(text)
    expect(chunks.flatMap(({ choices }) => choices[0]?.finish_reason ?? [])).toEqual(['length'])
    expect(chunks.at(-1).usage).toMatchObject({ prompt_tokens: 5, completion_tokens: 5 })
    // It tells no cached tokens, so none are told.
    expect(JSON.stringify(chunks)).not.toContain('cached_tokens')
  })

  test('the other dialects, which it has otherwise or not at all', async () => {
    const responses = await ask('/v1/responses', { input: 'hi', max_output_tokens: 5 })
    expect(await responses.json()).toMatchObject({ object: 'response', status: 'incomplete' })
    const anthropic = await ask('/v1/messages', { messages, max_tokens: 5 })
    expect(await anthropic.json()).toMatchObject({ type: 'message', stop_reason: 'max_tokens' })
    const completion = await ask('/v1/completions', { prompt: 'hi', max_tokens: 5 })
    expect(await completion.json()).toMatchObject({ choices: [{ finish_reason: 'length' }] })
  })

  test(
    'a client that leaves ends the work of the server',
    async () => {
      const leave = new AbortController()
      const long = await ask('/v1/chat/completions', { messages, max_tokens: 100_000, stream: true }, leave.signal)
      await long.body?.getReader().read()
      leave.abort()
      // The server works on one request at a time: 100,000 tokens would take longer than this.
      const next = await ask('/v1/chat/completions', { messages, max_tokens: 2 }, AbortSignal.timeout(60_000))
      expect(next.status).toBe(200)
    },
    slowMs,
  )

  test('a field that it does not know is the client’s error, in its own words, and no failure of the node', async () => {
    // While it loads a model it answers nothing, which the node has as a time-out.
    const failed = (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).last_error
    const refused = await ask('/v1/chat/completions', { messages, max_tokens: 2, top_k: 4 })
    expect([refused.status, await refused.json()]).toMatchObject([
      400,
      { error: { code: 'invalid_request', message: expect.stringContaining('top_k') } },
    ])
    expect((await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).last_error).toEqual(failed)
  })

  test('a prompt beyond its context is answered, since it neither tells nor keeps a bound', async () => {
    const long = [{ role: 'user', content: 'b'.repeat(contextTokens * 2) }]
    const answer = await ask('/v1/chat/completions', { messages: long, max_tokens: 2 })
    expect([answer.status, await answer.json()]).toMatchObject([200, { usage: { completion_tokens: 2 } }])
  })
})
