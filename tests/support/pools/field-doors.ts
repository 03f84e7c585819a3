import type { TSchema } from '@sinclair/typebox'
import type { Door } from '../../../src/protocol/dialects/field.ts'
import { fields, valueAt } from '../../../src/protocol/dialects/fields.ts'
import { postJson } from '../clients/post-json.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../nodes/scripted-node.ts'

export type Fields = Readonly<Record<string, unknown>>

const messages = [{ role: 'user', content: 'hi' }]
const parameters = { type: 'object', properties: {} }
const tools = [{ type: 'function', function: { name: 'f', parameters } }]

/** A request at each door, and at the other path of Ollama's. */
const requests = {
  chat: { path: '/v1/chat/completions', body: { messages, tools } },
  completions: { path: '/v1/completions', body: { prompt: 'hi' } },
  embeddings: { path: '/v1/embeddings', body: { model: 'text-embed', input: 'hi' } },
  rerank: { path: '/v1/rerank', body: { model: 'text-rerank', query: 'hi', documents: ['a', 'b'] } },
  responses: { path: '/v1/responses', body: { input: 'hi', tools: [{ type: 'function', name: 'f', parameters }] } },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 9 } },
  ollama: { path: '/api/generate', body: { prompt: 'hi', stream: false } },
  'ollama chat': { path: '/api/chat', body: { messages, tools, stream: false } },
} as const
export type Place = keyof typeof requests
export const places = Object.keys(requests) as readonly Place[]
export const doorOf = (place: Place): Door => (place === 'ollama chat' ? 'ollama' : place)
export const membersOf = (place: Place): readonly string[] => Object.keys(requests[place].body)
/** `/api/chat` has its system prompt among its messages. */
export const fieldsOf = (place: Place): readonly string[] =>
  Object.keys(fields).filter(
    (name) => fields[name]?.at[doorOf(place)] !== undefined && !(place === 'ollama chat' && name === 'system'),
  )

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
  text: { format: { type: 'json_object' }, verbosity: 'low' },
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
  output_config: { effort: 'low', format: { type: 'json_schema', schema: parameters } },
  output_format: { type: 'json_schema', schema: parameters },
  container: 'c',
  mcp_servers: [{ type: 'url', name: 'n', url: 'https://example.org' }],
  thread: 't',
  context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
  billing_policy: { type: 'billing_policy', bill_to: 'user_profile' },
  format: 'json',
  think: 'low',
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
export const sampleOf = (name: string): unknown => samples[name] ?? typical(fields[name]?.value as TSchema)

/** Values of its type that programs take for nothing: 0, false, an empty text, list or object. */
export function emptyOf(name: string, door: Door): readonly unknown[] {
  const row = fields[name]
  if (row === undefined) return []
  const value = valueAt(row, door)
  const empty = ({ type, minimum = 0, exclusiveMinimum = -1, enum: words, const: only }: TSchema): unknown[] => {
    if (words !== undefined || only !== undefined) return []
    if (type === 'boolean') return [false]
    if (type === 'string') return ['']
    if (type === 'array') return [[]]
    if (type === 'object') return [{}]
    return Number(minimum) <= 0 && Number(exclusiveMinimum) < 0 ? [0] : []
  }
  return ((value.anyOf as TSchema[] | undefined) ?? [value]).flatMap(empty)
}

/** Of Ollama's fields, those that do not stand in `options`. */
const besideOptions = new Set(
  'system format think keep_alive logprobs top_logprobs models svc cache_control prompt_cache_key'.split(' '),
)

/** The member with which a client of this place sends the field. */
export function given(place: Place, name: string, value: unknown): Fields {
  const member = { [name]: value }
  if (doorOf(place) !== 'ollama') return member
  // Ollama's clients say both.
  if (name === 'top_logprobs') return { logprobs: true, ...member }
  return besideOptions.has(name) ? member : { options: member }
}

/** What the client was told, and what the node was sent; null: nothing. */
export interface Asked {
  readonly status: number
  readonly sent: Fields | null
  readonly text: string
}

/** A gateway with an account's own nodes, which keep what they were sent last. */
export class FieldDoors {
  private sent: Fields | null = null
  private readonly nodes: ScriptedNode[] = []

  private constructor(
    readonly gateway: TestGateway,
    readonly customer: TestCustomer,
  ) {}

  static async start(): Promise<FieldDoors> {
    const gateway = await startTestGateway({ env: { SVC_OLLAMA_LISTEN: '127.0.0.1:0' } })
    const policies = { policy: { allow_external: true }, keyPolicy: { allow_external: true } }
    const doors = new FieldDoors(gateway, await gateway.customer(policies))
    await doors.node('m', (call) => {
      const text = { text: 'a', logprobs: { token_logprobs: [-1] } }
      const choice = call.path === '/v1/completions' ? text : { message: { role: 'assistant', content: 'a' } }
      call.respond(200, { choices: [{ index: 0, finish_reason: 'stop', ...choice }] })
    })
    const data = [{ object: 'embedding', index: 0, embedding: [1] }]
    await doors.node('text-embed', (call) => call.respond(200, { object: 'list', data }))
    const results = [0, 1].map((index) => ({ index, relevance_score: 0.5 }))
    await doors.node('text-rerank', (call) => call.respond(200, { results }))
    return doors
  }

  /** Resolves with its id. */
  async node(model: string, answer: (call: ScriptedCall) => void): Promise<string> {
    const node = startScriptedNode(model)
    this.nodes.push(node)
    node.answer((call) => {
      this.sent = call.body
      answer(call)
    })
    return this.gateway.node(node.url, { customerId: this.customer.customerId })
  }

  async ask(place: Place, more: Fields = {}): Promise<Asked> {
    const { path, body } = requests[place]
    this.sent = null
    const { url, ollamaUrl } = this.gateway
    const response = await postJson((doorOf(place) === 'ollama' ? ollamaUrl : url) + path, this.customer.key, {
      model: 'm',
      ...body,
      ...more,
    })
    const text = await response.text()
    return { status: response.status, sent: this.sent, text }
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) node.stop()
    await this.gateway.stop()
  }
}
