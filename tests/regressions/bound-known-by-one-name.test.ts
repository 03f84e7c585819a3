import { expect, test } from 'bun:test'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { postJson } from '../support/clients/post-json.ts'
import { startTestGateway } from '../support/gateways/gateway.ts'
import { startLoneAgent } from '../support/nodes/lone-agent.ts'
import { startOllamaNode } from '../support/nodes/ollama-node.ts'
import { nodeChunk, nodeUsage, startScriptedNode } from '../support/nodes/scripted-node.ts'
import { fixture, scoped } from '../support/run/fixture.ts'

/**
 * Symptom: an answer of Ollama, LM Studio or an earlier llama.cpp was as long as its model liked where the client bounded it by `max_completion_tokens`,
 * whatever the policy of its key said. So was a completion of any server.
 * Cause: these servers know `max_tokens` alone, the client's name was sent on, and no bound was added beside it.
 * Fix: they are sent the bound by the name that they know.
 */
interface Recorded {
  readonly answers: Readonly<Record<string, { readonly status: number; readonly body: unknown }>>
}
const loaded = 'meta-llama-3.1-8b-instruct'

/** A server that answers probes as a recorded LM Studio does, and keeps what it is asked. */
function startLmStudio() {
  const file = join(import.meta.dir, '../runtimes/fixtures/lm-studio-ready.json')
  const { answers } = JSON.parse(readFileSync(file, 'utf8')) as Recorded
  const calls: { readonly body: Readonly<Record<string, unknown>> }[] = []
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    async fetch(request) {
      const recorded = answers[new URL(request.url).pathname]
      if (request.method === 'GET') return Response.json(recorded?.body ?? { error: 'Unexpected endpoint' })
      calls.push({ body: (await request.json()) as Readonly<Record<string, unknown>> })
      const message = { role: 'assistant', content: 'two words' }
      return Response.json({ choices: [{ index: 0, message, finish_reason: 'stop' }] })
    },
  })
  return { url: `http://127.0.0.1:${server.port}`, calls, stop: () => void server.stop(true) }
}

const gateway = await fixture(startTestGateway())
const customer = await gateway.customer({ policy: { max_tokens_per_request: 50 } })
const ollama = await fixture(startOllamaNode({ models: ['small'] }))
const studio = await fixture(startLmStudio())
const other = await fixture(startScriptedNode('other'))
const llama = await fixture(startScriptedNode('llama', 'llama.cpp'))
for (const { url } of [ollama, studio, other, llama]) await gateway.node(url, { customerId: customer.customerId })
other.answer((call) => {
  const message = { role: 'assistant', content: 'two words' }
  sent = call.body
  call.respond(200, { choices: [{ index: 0, message, text: 'two words', finish_reason: 'stop' }] })
})
let sent: Readonly<Record<string, unknown>> = {}

const messages = [{ role: 'user', content: 'Write a book.' }]
const chat = '/v1/chat/completions'
const ask = async (path: string, body: object) => {
  const response = await postJson(gateway.url + path, customer.key, body)
  expect([response.status, await response.text()]).toEqual([200, expect.any(String)])
}
const boundOf = (body: Readonly<Record<string, unknown>> | undefined) => {
  const { max_tokens, max_completion_tokens } = body ?? {}
  return { max_tokens, max_completion_tokens }
}
const byOwnName = { max_tokens: 40, max_completion_tokens: undefined }
const asked = { max_completion_tokens: 40 }

test.each([
  ['a chat', chat, { messages }],
  ['a streamed chat', chat, { messages, stream: true }],
  ['a completion', '/v1/completions', { prompt: 'Write a book.' }],
  ['several completions', '/v1/completions', { prompt: 'Write a book.', n: 2 }],
])('§5: Ollama is sent max_tokens for the other name: %s', async (_, path, body) => {
  const before = ollama.calls.length
  await ask(path, { model: 'small', ...body, ...asked })
  const bounds = ollama.calls.slice(before).map((call) => boundOf(call.body))
  expect(bounds).toEqual(bounds.map(() => byOwnName))
  expect(bounds.length).toBeGreaterThan(0)
})

test('§5: LM Studio is sent max_tokens for the other name', async () => {
  await ask(chat, { model: loaded, messages, ...asked })
  expect(boundOf(studio.calls.at(-1)?.body)).toEqual(byOwnName)
})

test('§5: llama.cpp, whose earlier versions know one name, is sent max_tokens', async () => {
  let bounds: unknown = null
  llama.answer(async ({ body, open, event, end }) => {
    bounds = boundOf(body)
    open()
    await event(nodeChunk({ content: 'two words' }, 'stop', { usage: nodeUsage }))
    await event('[DONE]')
    end()
  })
  for (const stream of [true, false]) {
    await ask(chat, { model: 'llama', messages, stream, ...asked })
    expect(bounds).toEqual(byOwnName)
    bounds = null
  }
})

test('§5: each model of a mixture is sent the name that its server knows', async () => {
  const experts = ['small', loaded, 'other'].map((model) => ({ model }))
  const mixture = { strategy: 'synthesize', experts, aggregator: { model: 'small' } }
  const before = ollama.calls.length
  await ask(chat, { model: 'small', messages, ...asked, svc: { mixture } })
  const bounds = ollama.calls.slice(before).map((call) => boundOf(call.body))
  expect(bounds).toEqual([byOwnName, byOwnName])
  expect([boundOf(studio.calls.at(-1)?.body), boundOf(sent)]).toEqual([
    byOwnName,
    { max_tokens: undefined, max_completion_tokens: 40 },
  ])
})

test('§5: other servers are sent the client’s name of a chat’s bound, and max_tokens of a completion’s', async () => {
  await ask(chat, { model: 'other', messages, ...asked })
  expect(boundOf(sent)).toEqual({ max_tokens: undefined, max_completion_tokens: 40 })
  await ask('/v1/completions', { model: 'other', prompt: 'Write a book.', ...asked })
  expect(boundOf(sent)).toEqual(byOwnName)
})

test('§5: the agent sends its Ollama max_tokens, too', async () => {
  await using agent = await scoped(startLoneAgent({ runtimes: [ollama.url] }))
  const response = await postJson(`${agent.node.url}${chat}`, agent.localToken, { model: 'small', messages, ...asked })
  expect(response.status).toBe(200)
  expect(boundOf(ollama.calls.at(-1)?.body)).toEqual(byOwnName)
})
