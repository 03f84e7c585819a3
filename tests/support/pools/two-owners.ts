import type { Door } from '../../../src/protocol/dialects/field.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { type ScriptedCall, type ScriptedNode, startScriptedNode } from '../nodes/scripted-node.ts'

export type Fields = Readonly<Record<string, unknown>>
/** Whose node was called, and with what. */
export interface Sent {
  readonly by: 'own' | 'others'
  readonly path: string
  readonly body: Fields
}

function answer(call: ScriptedCall, embedding: readonly number[]): void {
  if (call.path === '/v1/embeddings') {
    const inputs = ([] as unknown[]).concat(call.body.input)
    const data = inputs.map((_, index) => ({ object: 'embedding', index, embedding }))
    return call.respond(200, { object: 'list', data })
  }
  if (call.path === '/v1/rerank') {
    const documents = call.body.documents as readonly unknown[]
    return call.respond(200, { results: documents.map((_, index) => ({ index, relevance_score: 0.5 })) })
  }
  const text = call.path === '/v1/completions'
  const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
  const end = { index: 0, finish_reason: 'stop' }
  if (call.body.stream !== true) {
    const said = text ? { text: 'a' } : { message: { role: 'assistant', content: 'a' } }
    return call.respond(200, { choices: [{ ...end, ...said }], usage })
  }
  const chunk = { choices: [{ ...end, ...(text ? { text: 'a' } : { delta: { content: 'a' } }) }], usage }
  call.respond(200, `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`, { 'content-type': 'text/event-stream' })
}

export const messages = [{ role: 'user', content: 'hi' }]
export const requests: Readonly<
  Record<Door | 'generate' | 'embed' | 'old embed', { readonly path: string; body: Fields }>
> = {
  chat: { path: '/v1/chat/completions', body: { messages } },
  completions: { path: '/v1/completions', body: { prompt: 'hi' } },
  embeddings: { path: '/v1/embeddings', body: { input: 'hi' } },
  rerank: { path: '/v1/rerank', body: { query: 'hi', documents: ['a', 'b'] } },
  responses: { path: '/v1/responses', body: { input: 'hi' } },
  messages: { path: '/v1/messages', body: { messages, max_tokens: 9 } },
  ollama: { path: '/api/chat', body: { messages, stream: false } },
  generate: { path: '/api/generate', body: { prompt: 'hi', stream: false } },
  embed: { path: '/api/embed', body: { input: 'hi' } },
  'old embed': { path: '/api/embeddings', body: { prompt: 'hi' } },
}
export type Place = keyof typeof requests
export const places = Object.keys(requests) as Place[]
const ofOllama = (place: Place) => requests[place].path.startsWith('/api/')
const embeds = (place: Place) => place === 'embeddings' || place === 'embed' || place === 'old embed'
export const modelOf = (place: Place, by: Sent['by']) =>
  (by === 'own' ? 'own' : 'their').concat(
    place === 'rerank' ? '-rerank' : embeds(place) ? '-embed' : by === 'own' ? '' : 's',
  )

export const member = (name: string, value: unknown) => `${JSON.stringify(name)}:${JSON.stringify(value)}`

/** What the client is told, in whichever envelope. */
export interface Told {
  readonly status: number
  readonly code?: string
  readonly param?: string
  readonly words: string
}
export async function told(response: Response): Promise<Told> {
  const words = await response.text()
  const body = JSON.parse(words) as { error?: { code?: string; param?: string; svc?: object } | null; svc?: object }
  const error =
    typeof body.error === 'object' && body.error !== null ? { ...body.error, ...body.error.svc } : { ...body.svc }
  const { code, param } = error as { code?: string; param?: string }
  return {
    status: response.status,
    words,
    ...(code === undefined ? {} : { code }),
    ...(param === undefined ? {} : { param }),
  }
}

/** Names that no table has, and that objects may have. */
export const newNames = [
  'brand_new_sampler',
  '__proto__',
  'constructor',
  'prototype',
  'hasOwnProperty',
  'toString',
  'valueOf',
  '',
  'ключ',
  'two words',
  'a"b\\c',
  'line\nfeed',
  '🦊',
  '0',
]

const away = { min_privacy_class: 'public' }
/** What lets prompts leave the account's own nodes. */
export const leaving = { policy: away, keyPolicy: away }

/** A gateway with an account's own nodes, and those of another account that are open to it; both have the model `both`. */
export class TwoOwners {
  sent: Sent[] = []
  /** With which nodes answer for each text. */
  vector: readonly number[] = [1]
  /** By whose and its model. */
  readonly nodeIds = new Map<string, string>()
  private readonly nodes: ScriptedNode[] = []

  private constructor(
    readonly gateway: TestGateway,
    readonly customer: TestCustomer,
  ) {}

  static async start(): Promise<TwoOwners> {
    const env = { SVC_OLLAMA_LISTEN: '127.0.0.1:0', SVC_CHAT_BODY_BYTES_MAX: '20000000' }
    const gateway = await startTestGateway({ env })
    const owners = new TwoOwners(gateway, await gateway.customer(leaving))
    const stranger = await gateway.customer()
    for (const model of ['own', 'own-embed', 'own-rerank', 'both'])
      await owners.node('own', model, owners.customer.customerId)
    for (const model of ['theirs', 'their-embed', 'their-rerank', 'both'])
      await owners.node('others', model, stranger.customerId)
    return owners
  }

  private async node(by: Sent['by'], model: string, customerId: string): Promise<void> {
    const node = startScriptedNode(model)
    this.nodes.push(node)
    node.answer((call) => {
      this.sent.push({ by, path: call.path, body: call.body })
      answer(call, this.vector)
    })
    const shared = { visibility: 'public', privacyClass: 'public' } as const
    const nodeId = await this.gateway.node(node.url, { customerId, ...(by === 'own' ? {} : shared) })
    this.nodeIds.set(`${by} ${model}`, nodeId)
  }

  post(place: Place, body: string, key = this.customer.key): Promise<Response> {
    const { url, ollamaUrl } = this.gateway
    return fetch(`${ofOllama(place) ? ollamaUrl : url}${requests[place].path}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
      body,
    })
  }

  /** `more`: JSON members, as a client writes them. */
  ask(place: Place, by: Sent['by'], more: string, key?: string): Promise<Response> {
    const plain = JSON.stringify({ model: modelOf(place, by), ...requests[place].body })
    return this.post(place, `${plain.slice(0, -1)},${more}}`, key)
  }

  async stop(): Promise<void> {
    for (const node of this.nodes) node.stop()
    await this.gateway.stop()
  }
}
