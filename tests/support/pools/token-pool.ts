import { type PostInit, postJson } from '../clients/post-json.ts'
import { startTestGateway, type TestCustomer, type TestGateway } from '../gateways/gateway.ts'
import { recorded, saying, startTokenNode, type TokenNode } from '../nodes/token-node.ts'

export type Json = Record<string, unknown>
export const tokenKinds = ['llama.cpp', 'vllm', 'sglang'] as const
/** What the recorded answers count. */
export const tokenCounts = { 'llama.cpp': 12, vllm: 5, sglang: 3 } as const
/** Two nodes of one kind have it. */
export const shared = 'shared'
export const messages = [{ role: 'user', content: 'the a of and' }]

export interface TokenPool {
  readonly gateway: TestGateway
  readonly customer: TestCustomer
  /** Its models are the kinds, `other` without a tokenizer, `unloaded` and `shared`. */
  node(model: string): TokenNode
  /** All but the pair. */
  readonly nodes: readonly TokenNode[]
  readonly pair: readonly [TokenNode, TokenNode]
  readonly pairIds: readonly string[]
  /** Everybody answers as recorded again. */
  reset(): void
  post(path: string, body: object, init?: PostInit): Promise<Response>
  told(path: string, body: object): Promise<Json>
  /** Status, code and `param` of OpenAI's envelope. */
  refused(path: string, body: object): Promise<readonly [number, string, string | null]>
  count(model: string, more?: object): Promise<Counted>
  stop(): Promise<void>
}

interface Counted {
  readonly input_tokens: number
  readonly svc: { readonly usage_estimated: boolean; readonly runtime_kind?: string }
}

/** A customer with a node of each kind that has a tokenizer, and of some that have none. */
export async function startTokenPool(): Promise<TokenPool> {
  const gateway = await startTestGateway()
  const open = { min_privacy_class: 'public' }
  const customer = await gateway.customer({ policy: open, keyPolicy: open })
  const { customerId } = customer
  const nodes = new Map<string, TokenNode>()
  for (const kind of [...tokenKinds, 'other'] as const) nodes.set(kind, startTokenNode({ kind, model: kind }))
  nodes.set('unloaded', startTokenNode({ kind: 'llama.cpp', model: 'unloaded', unloaded: true }))
  const pair = [
    startTokenNode({ kind: 'vllm', model: shared }),
    startTokenNode({ kind: 'vllm', model: shared }),
  ] as const
  for (const { url } of nodes.values()) await gateway.node(url, { customerId })
  const pairIds: string[] = []
  for (const { url } of pair) pairIds.push(await gateway.node(url, { customerId }))
  const post: TokenPool['post'] = (path, body, init = {}) => postJson(gateway.url + path, customer.key, body, init)
  const told: TokenPool['told'] = async (path, body) => {
    const response = await post(path, body)
    const said = await response.text()
    if (response.status !== 200) throw new Error(`${path}: ${response.status} ${said}`)
    return JSON.parse(said) as Json
  }
  return {
    gateway,
    customer,
    nodes: [...nodes.values()],
    pair,
    pairIds,
    post,
    told,
    node: (model) => nodes.get(model) as TokenNode,
    reset: () => {
      for (const kind of tokenKinds) nodes.get(kind)?.answer(saying(recorded[kind]))
      for (const node of pair) node.answer(saying(recorded.vllm))
    },
    refused: async (path, body) => {
      const response = await post(path, body)
      const { error } = (await response.json()) as { error: { code: string; param: string | null } }
      return [response.status, error.code, error.param]
    },
    count: async (model, more = {}) =>
      (await told('/v1/messages/count_tokens', { model, messages, ...more })) as unknown as Counted,
    stop: async () => {
      for (const node of [...nodes.values(), ...pair]) await node.stop()
      await gateway.stop()
    },
  }
}
