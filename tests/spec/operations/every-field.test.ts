import { afterAll, beforeAll, describe, expect, test } from 'bun:test'
import type { TSchema } from '@sinclair/typebox'
import { upstreamStripped } from '../../../src/protocol/chat/upstream-request.ts'
import { type Door, doors } from '../../../src/protocol/dialects/field.ts'
import { fields } from '../../../src/protocol/dialects/fields.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../../support/gateways/gateway.ts'
import { startOllamaNode } from '../../support/nodes/ollama-node.ts'
import { type ScriptedNode, startScriptedNode } from '../../support/nodes/scripted-node.ts'

type Fields = Readonly<Record<string, unknown>>
let gateway: TestGateway
let customer: TestCustomer
let node: ScriptedNode
let embedder: ScriptedNode
let ranker: ScriptedNode
let sent: Fields | null = null
beforeAll(async () => {
  gateway = await startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0' } })
  customer = await gateway.customer({ policy: { allow_external: true }, keyPolicy: { allow_external: true } })
  node = startScriptedNode('m')
  node.answer((call) => {
    sent = call.body
    const choice =
      call.path === '/v1/completions'
        ? { text: 'a', logprobs: { token_logprobs: [-1] } }
        : { message: { role: 'assistant', content: 'a' } }
    call.respond(200, { choices: [{ index: 0, finish_reason: 'stop', ...choice }] })
  })
  embedder = startScriptedNode('text-embed')
  embedder.answer((call) => {
    sent = call.body
    call.respond(200, { object: 'list', data: [{ object: 'embedding', index: 0, embedding: [1] }] })
  })
  ranker = startScriptedNode('text-rerank')
  ranker.answer((call) => {
    sent = call.body
    call.respond(200, { results: [0, 1].map((index) => ({ index, relevance_score: 0.5 })) })
  })
  for (const { url } of [node, embedder, ranker]) await gateway.node(url, { customerId: customer.customerId })
})
afterAll(async () => {
  node.stop()
  embedder.stop()
  ranker.stop()
  await gateway.stop()
})

async function hostedNode() {
  const hosted = startScriptedNode('hosted')
  hosted.answer((call) => {
    sent = call.body
    const message = { role: 'assistant', content: 'a' }
    call.respond(200, { choices: [{ index: 0, finish_reason: 'stop', message }] })
  })
  return { nodeId: await gateway.node(hosted.url, { customerId: customer.customerId }), stop: hosted.stop }
}

const messages = [{ role: 'user', content: 'hi' }]
const parameters = { type: 'object', properties: {} }
const requests: Readonly<Record<Door, { readonly path: string; readonly body: Fields }>> = {
  chat: {
    path: '/v1/chat/completions',
    body: { messages, tools: [{ type: 'function', function: { name: 'f', parameters } }] },
  },
  completions: { path: '/v1/completions', body: { prompt: 'hi' } },
  embeddings: { path: '/v1/embeddings', body: { model: 'text-embed', input: 'hi' } },
  rerank: { path: '/v1/rerank', body: { model: 'text-rerank', query: 'hi', documents: ['a', 'b'] } },
  responses: { path: '/v1/responses', body: { input: 'hi', tools: [{ type: 'function', name: 'f', parameters }] } },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 9 } },
  ollama: { path: '/api/generate', body: { prompt: 'hi', stream: false } },
}

/** Where 1 would be refused for its type, or would change nothing. */
const samples: Fields = {
  temperature: 0.5,
  top_p: 0.5,
  stop: ['x'],
  logprobs: true,
  n: 2,
  best_of: 2,
  max_tokens: 7,
  response_format: { type: 'json_object' },
  verbosity: 'low',
  reasoning_effort: 'low',
  stream_options: { include_usage: true },
  suffix: 'x',
  echo: true,
  parallel_tool_calls: false,
  metadata: { a: 'b' },
  cache_control: { type: 'ephemeral' },
  reasoning: { effort: 'low' },
  text: { format: { type: 'json_object' } },
  instructions: 'Be brief.',
  previous_response_id: 'resp_1',
  conversation: 'conv_1',
  background: true,
  prompt: { id: 'p' },
  include: ['message.output_text.logprobs'],
  truncation: 'auto',
  stop_sequences: ['x'],
  system: 'Be brief.',
  thinking: { type: 'disabled' },
  output_config: { effort: 'low' },
  container: 'c',
  mcp_servers: [{ type: 'url', name: 'n', url: 'https://example.org' }],
  thread: 't',
  context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
  format: 'json',
  think: true,
  keep_alive: '5m',
  penalize_newline: true,
  chat_template_kwargs: { a: 1 },
  grammar: 'root ::= "a"',
  encoding_format: 'base64',
  client_metadata: { a: 'b' },
  models: ['other', 'another'],
  fallbacks: [{ model: 'other' }],
  svc: { job_id: 'job-1' },
  rank_fields: ['title'],
  use_activation: false,
  activation: false,
}

/** A value of the type that the table has. */
function typical({ type, anyOf, minimum = 1 }: TSchema): unknown {
  if (anyOf !== undefined) return typical((anyOf as TSchema[])[0] as TSchema)
  if (type === 'boolean') return true
  if (type === 'string') return 'x'
  if (type === 'array') return []
  if (type === 'object') return { a: 1 }
  return Math.max(Number(minimum), 1)
}
const sampleOf = (name: string): unknown => samples[name] ?? typical(fields[name]?.value as TSchema)
/** Of Ollama's fields, those that do not stand in `options`. */
const besideOptions = new Set(
  'system format think keep_alive logprobs top_logprobs models svc cache_control prompt_cache_key'.split(' '),
)

const withField = (door: Door, name: string): Fields => {
  const given = { [name]: sampleOf(name) }
  // Ollama's clients say both.
  if (door === 'ollama' && name === 'top_logprobs') return { logprobs: true, ...given }
  return door === 'ollama' && !besideOptions.has(name) ? { options: given } : given
}

/** Status of the answer, and what the node was sent; null: nothing. */
async function ask(door: Door, more: Fields): Promise<{ readonly status: number; readonly sent: Fields | null }> {
  const { path, body } = requests[door]
  sent = null
  const base = door === 'ollama' ? gateway.ollamaUrl : gateway.url
  const response = await fetch(`${base}${path}`, {
    method: 'POST',
    headers: { authorization: `Bearer ${customer.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ model: 'm', ...body, ...more }),
  })
  await response.text()
  return { status: response.status, sent }
}

describe.each(doors)('§35: every field has its fate: %s', (door) => {
  const names = Object.keys(fields).filter((name) => fields[name]?.at[door] !== undefined)

  test.each(names)('%s', async (name) => {
    const [plain, given] = [await ask(door, {}), await ask(door, withField(door, name))]
    switch (fields[name]?.at[door]) {
      case 'carried':
        expect(given.sent).toMatchObject({ [name]: sampleOf(name) })
        break
      case 'mapped':
        expect(given.status).toBe(200)
        expect(given.sent).not.toEqual(plain.sent)
        break
      case 'refused':
        expect(given).toEqual({ status: 400, sent: null })
        break
      default:
        // A hint, or dropped: the node cannot tell.
        expect(given).toEqual(plain)
        expect(given.status).toBe(200)
    }
  })
})

describe.each(doors)('§35: a field of another dialect does not disappear in silence: %s', (door) => {
  const { body } = requests[door]
  // `/api/generate` has `suffix` itself, and refuses it.
  const own = new Set([...Object.keys(body), ...(door === 'ollama' ? ['suffix'] : [])])
  const names = Object.keys(fields).filter((name) => fields[name]?.at[door] === undefined && !own.has(name))

  test.each(names)('%s', async (name) => {
    const given = await ask(door, { [name]: sampleOf(name) })
    expect(given).toEqual({ status: 200, sent: expect.objectContaining({ [name]: sampleOf(name) }) })
  })
})

test('§35: what chat drops, takes as a hint or refuses has its fate at every door that becomes a chat', () => {
  const translated = ['responses', 'messages', 'ollama'] as const
  const open = Object.keys(fields).filter((name) => {
    const at = fields[name]?.at ?? {}
    return at.chat !== undefined && at.chat !== 'carried' && translated.some((door) => at[door] === undefined)
  })
  expect(open).toEqual([])
})

test('§35: no field has two meanings: what a door has in its place is refused there', () => {
  for (const { at, instead = {} } of Object.values(fields)) {
    for (const door of Object.keys(instead) as Door[]) expect(at[door]).toBe('refused')
  }
})

test('§5: no node gets what is dropped or a hint at chat, whichever dialect it came in', () => {
  expect([...upstreamStripped].sort()).toEqual(
    'cache_control metadata models prompt_cache_key safety_identifier service_tier store svc user'.split(' '),
  )
})

describe('§35: thinking is switched as the node’s kind has it', () => {
  test.each([
    ['enabled', true],
    ['disabled', false],
  ])('Messages, %s', async (type, on) => {
    const { sent: got } = await ask('messages', { thinking: { type, budget_tokens: 1_024 } })
    expect(got).toMatchObject({ chat_template_kwargs: { enable_thinking: on, thinking: on } })
  })

  test('Messages, adaptive: the model’s own default stands', async () => {
    expect(await ask('messages', { thinking: { type: 'adaptive' } })).toEqual(await ask('messages', {}))
  })

  test('beside what the client tells the template itself, which stands', async () => {
    const own = { chat_template_kwargs: { enable_thinking: true, tone: 'kind' }, thinking: { type: 'disabled' } }
    const { sent: got } = await ask('messages', own)
    expect(got).toMatchObject({ chat_template_kwargs: { enable_thinking: true, thinking: false, tone: 'kind' } })
  })

  test('a hosted provider is told nothing: what it knows is not known here', async () => {
    const { nodeId, stop } = await hostedNode()
    try {
      await gateway.admin('PATCH', `/v1/admin/nodes/${nodeId}`, { external: true })
      const answer = await ask('messages', { model: 'hosted', thinking: { type: 'disabled' } })
      expect(answer.status).toBe(200)
      expect(answer.sent).not.toHaveProperty('chat_template_kwargs')
    } finally {
      stop()
    }
  })

  test('Ollama is told not to think by OpenAI’s word, and is told nothing where the model shall think', async () => {
    const ollama = startOllamaNode({ models: ['o'] })
    const lastChat = () => ollama.calls.findLast(({ path }) => path === '/v1/chat/completions')?.body
    try {
      await gateway.node(ollama.url, { customerId: customer.customerId })
      expect((await ask('messages', { model: 'o', thinking: { type: 'disabled' } })).status).toBe(200)
      expect(lastChat()).toMatchObject({ reasoning_effort: 'none' })
      expect(lastChat()).not.toHaveProperty('chat_template_kwargs')
      expect((await ask('messages', { model: 'o', thinking: { type: 'enabled', budget_tokens: 1_024 } })).status).toBe(
        200,
      )
      expect(lastChat()).not.toHaveProperty('reasoning_effort')
    } finally {
      ollama.stop()
    }
  })
})
