import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { Node } from '../../src/protocol/wire/admin/admin.ts'
import { postJson } from '../support/clients/post-json.ts'
import { pythonWith } from '../support/clients/python.ts'
import { packagesOf } from '../support/clients/python-suites.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../support/gateways/gateway.ts'
import { type LiteLlmServer, startLiteLlm } from '../support/nodes/litellm-server.ts'
import { nodeChunk, type ScriptedCall, type ScriptedNode, startScriptedNode } from '../support/nodes/scripted-node.ts'

/** LiteLLM's own proxy as a node behind the gateway: what it tells of itself, and what comes through both. */
const packages = packagesOf('proxy')
const python = await pythonWith(packages)
if (python === null) console.log(`skipped: ${packages.join(', ')} cannot be installed from PyPI`)

const slowMs = 300_000
const messages = [{ role: 'user', content: 'hi' }]
const usage = {
  prompt_tokens: 9,
  completion_tokens: 2,
  total_tokens: 11,
  prompt_tokens_details: { cached_tokens: 4 },
}
const tool = { type: 'function', function: { name: 'look', parameters: { type: 'object', properties: {} } } }
const called = { id: 'call_1', type: 'function', function: { name: 'look', arguments: '{}' } }

async function answer(call: ScriptedCall): Promise<void> {
  if (call.path === '/v1/embeddings') {
    const data = [{ object: 'embedding', index: 0, embedding: [0.5, -0.5] }]
    return call.respond(200, { object: 'list', data, model: 'm-embed', usage: { prompt_tokens: 1, total_tokens: 1 } })
  }
  if (call.body.stream === true) {
    call.open()
    await call.event(nodeChunk({ role: 'assistant', content: 'well' }))
    await call.event(nodeChunk({ content: ' said' }))
    await call.event(nodeChunk({}, 'stop'))
    // As OpenAI sends it: of usage in the chunk that ends the answer LiteLLM makes a count of its own.
    await call.event({ ...nodeChunk({}), choices: [], usage })
    await call.event('[DONE]')
    return call.end()
  }
  const message = call.body.tools === undefined ? { content: 'well said' } : { content: null, tool_calls: [called] }
  const finish = call.body.tools === undefined ? 'stop' : 'tool_calls'
  const choices = [{ index: 0, message: { role: 'assistant', ...message }, finish_reason: finish }]
  call.respond(200, { id: 'a', object: 'chat.completion', created: 1, model: 'm', choices, usage })
}

describe.skipIf(python === null)('§35: LiteLLM behind the gateway', () => {
  let upstream: ScriptedNode
  let proxy: LiteLlmServer
  let gateway: TestGateway
  let customer: TestCustomer
  let nodeId: string
  beforeAll(async () => {
    upstream = startScriptedNode('m')
    upstream.answer(answer)
    proxy = await startLiteLlm(python ?? '', upstream.url)
    gateway = await startTestGateway()
    customer = await gateway.customer()
    nodeId = await gateway.node(proxy.url, { customerId: customer.customerId, apiKey: proxy.key })
  }, slowMs)
  afterAll(async () => {
    await gateway?.stop()
    await proxy?.stop()
    upstream?.stop()
  })

  const ask = (path: string, body: object) => postJson(gateway.url + path, customer.key, { model: 'm', ...body })

  test('its kind, its models, what they do, and no context that it does not tell', async () => {
    const [runtime] = (await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).runtimes
    expect(runtime?.runtime_kind).toBe('openai')
    const told = runtime?.models.map(({ upstream_model: id, serves, context_length: context }) => [id, serves, context])
    expect(told?.toSorted()).toEqual([
      ['m', ['chat'], null],
      ['m-embed', ['embedding'], null],
    ])
  })

  test('whole and streamed, with the cached tokens of the server behind it', async () => {
    const whole = await ask('/v1/chat/completions', { messages })
    expect(await whole.json()).toMatchObject({
      choices: [{ message: { content: 'well said' }, finish_reason: 'stop' }],
      usage: { prompt_tokens: 9, completion_tokens: 2, prompt_tokens_details: { cached_tokens: 4 } },
    })
    const text = await (await ask('/v1/chat/completions', { messages, stream: true })).text()
    const chunks = [...text.matchAll(/^data: (\{.*)$/gm)].map(([, data = '']) => JSON.parse(data))
    expect(chunks.map(({ choices: [choice] }) => choice?.delta?.content ?? '').join('')).toBe('well said')
    expect(text.trimEnd().endsWith('data: [DONE]')).toBe(true)
    expect(chunks.at(-1).usage).toMatchObject({
      prompt_tokens: 9,
      completion_tokens: 2,
      prompt_tokens_details: { cached_tokens: 4 },
    })
  })

  test('a call of a tool, and an embedding', async () => {
    const body = await (await ask('/v1/chat/completions', { messages, tools: [tool] })).json()
    expect(body).toMatchObject({ choices: [{ finish_reason: 'tool_calls', message: { tool_calls: [called] } }] })
    const embedded = await ask('/v1/embeddings', { model: 'm-embed', input: 'hi' })
    expect(await embedded.json()).toMatchObject({ data: [{ index: 0, embedding: [0.5, -0.5] }] })
  })

  test('a client that leaves ends the call of the server behind it', async () => {
    upstream.answer(null)
    try {
      const leave = new AbortController()
      const asked = gateway.chat(customer.key, { model: 'm', messages, stream: true }, { signal: leave.signal })
      const call = await upstream.next()
      call.open()
      await call.event(nodeChunk({ role: 'assistant', content: 'well' }))
      const reader = (await asked).body?.getReader()
      await reader?.read()
      leave.abort()
      await call.gone
    } finally {
      upstream.answer(answer)
    }
  })

  test('what the server behind it refuses is the client’s, and no failure of the node', async () => {
    upstream.answer((call) => call.respond(400, { error: { message: 'tools[0] has no name', code: 400 } }))
    try {
      const refused = await ask('/v1/chat/completions', { messages })
      expect([refused.status, await refused.json()]).toMatchObject([400, { error: { code: 'invalid_request' } }])
      const words = 'This model’s maximum context length is 8 tokens. However, your messages resulted in 12 tokens.'
      upstream.answer((call) => call.respond(400, { error: { message: words, code: 'context_length_exceeded' } }))
      const long = await ask('/v1/chat/completions', { messages })
      expect([long.status, await long.json()]).toMatchObject([400, { error: { code: 'context_length_exceeded' } }])
      expect((await gateway.admin<Node>('GET', `/v1/admin/nodes/${nodeId}`)).last_error).toBeNull()
    } finally {
      upstream.answer(answer)
    }
  })
})
