import type { RuntimeKind } from '../../../src/protocol/wire/nodes/node.ts'

export interface TokenCall {
  readonly path: string
  readonly body: Record<string, unknown>
  readonly headers: Headers
  /** Aborts when the gateway has closed the connection. */
  readonly signal: AbortSignal
}
export type TokenScript = (call: TokenCall) => Response | Promise<Response>

export interface TokenNode {
  readonly url: string
  /** Every POST so far. */
  readonly calls: readonly TokenCall[]
  answer(script: TokenScript): void
  stop(): Promise<void>
}

export interface TokenNodeOptions {
  readonly kind: Extract<RuntimeKind, 'llama.cpp' | 'vllm' | 'sglang' | 'other'>
  readonly model: string
  /** As a router of llama.cpp says it of a model that is not in memory. */
  readonly unloaded?: boolean
}

const owners = { 'llama.cpp': 'llamacpp', vllm: 'vllm', sglang: 'sglang', other: 'somebody' } as const
const contextLength = 4_096

/** The signs by which each kind is known. */
function sign(path: string, { kind, model, unloaded }: TokenNodeOptions): unknown {
  const entry = { id: model, object: 'model', owned_by: owners[kind], max_model_len: contextLength }
  const status = unloaded === true ? { status: { value: 'unloaded' } } : {}
  if (path === '/v1/models') return { object: 'list', data: [{ ...entry, ...status }] }
  if (path === '/health' || path === '/ready') return { status: 'ok' }
  if (path === '/model_info' && kind === 'sglang') return { model_path: model, is_generation: true }
  if (path === '/props' && kind === 'llama.cpp') {
    return { total_slots: 1, default_generation_settings: { n_ctx: contextLength } }
  }
  return undefined
}

const missing = () => Response.json({ error: { message: 'Not Found' } }, { status: 404 })

/** A model server whose answers to questions about tokens are the test's. */
export function startTokenNode(options: TokenNodeOptions): TokenNode {
  const calls: TokenCall[] = []
  let script: TokenScript = missing
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    idleTimeout: 0,
    async fetch(request) {
      const { pathname: path } = new URL(request.url)
      if (request.method === 'POST') {
        const body = (await request.json()) as Record<string, unknown>
        const call = { path, body, headers: request.headers, signal: request.signal }
        calls.push(call)
        return script(call)
      }
      const said = sign(path, options)
      return said === undefined ? missing() : Response.json(said)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    calls,
    answer: (given) => {
      script = given
    },
    stop: () => server.stop(true),
  }
}

/** By path, in the order of the questions. */
export const saying =
  (answers: Readonly<Record<string, unknown>>): TokenScript =>
  ({ path }) =>
    answers[path] === undefined ? missing() : Response.json(answers[path])

/** What each kind says of a short chat, as recorded: a llama.cpp of October 2026 with a tiny model, vLLM and SGLang by their sources. */
export const recorded = {
  'llama.cpp': {
    '/apply-template': { prompt: 'user: the a of and\nassistant: ' },
    '/tokenize': { tokens: [1, 269, 353, 341, 338, 260, 269, 348, 339, 260, 347, 337] },
    '/detokenize': { content: '<s> a of' },
  },
  vllm: {
    '/tokenize': { count: 5, max_model_len: 131_072, tokens: [2028, 374, 264, 1296, 10_137], token_strs: null },
    '/detokenize': { prompt: '<|begin_of_text|>Hi' },
  },
  sglang: {
    // The tokenizer's own length, where it has none.
    '/tokenize': { tokens: [2028, 374, 264], count: 3, max_model_len: 1e30 },
    '/detokenize': { text: '<|begin_of_text|>Hi' },
  },
} as const
