import { postJson } from '../../support/clients/post-json.ts'

/** How each dialect asks for an answer, and how a stream of it ends. */
export interface Dialect {
  readonly name: string
  /** Of the gateway, or of Ollama's interface. */
  readonly path: string
  readonly ollama?: true
  readonly headers?: Readonly<Record<string, string>>
  readonly body: Readonly<Record<string, unknown>>
  /** What stands in a stream that ended well. */
  readonly ended: string
  /** What stands in a stream that failed. */
  readonly failed: string
}

const messages = [{ role: 'user', content: 'hi' }]

export const chatDialect: Dialect = {
  name: 'chat',
  path: '/v1/chat/completions',
  body: { messages },
  ended: 'data: [DONE]',
  failed: '"error":{',
}
export const dialects: readonly Dialect[] = [
  chatDialect,
  // Its receipt commits to the answer, which is kept for that.
  { ...chatDialect, name: 'chat with a nonce', headers: { 'x-svc-nonce': 'n'.repeat(16) } },
  {
    name: 'completions',
    path: '/v1/completions',
    body: { prompt: 'hi' },
    ended: 'data: [DONE]',
    failed: '"error":{',
  },
  {
    name: 'messages',
    path: '/v1/messages',
    body: { messages, max_tokens: 100 },
    ended: 'event: message_stop',
    failed: 'event: error',
  },
  {
    name: 'responses',
    path: '/v1/responses',
    body: { input: 'hi' },
    ended: 'event: response.completed',
    failed: 'event: response.failed',
  },
  {
    name: 'ollama chat',
    path: '/api/chat',
    ollama: true,
    body: { messages },
    ended: '"done":true',
    failed: '{"error":"',
  },
  {
    name: 'ollama generate',
    path: '/api/generate',
    ollama: true,
    body: { prompt: 'hi' },
    ended: '"done":true',
    failed: '{"error":"',
  },
]

export interface DialectAnswer {
  readonly status: number
  readonly text: string
  readonly bytes: number
  /** A stream that was not broken off, or a whole answer. */
  readonly whole: boolean
}

interface Door {
  readonly url: string
  readonly ollamaUrl: string | null
}

/** Asks, and reads the answer to its end. */
export async function ask(
  door: Door,
  key: string,
  dialect: Dialect,
  model: string,
  stream: boolean,
): Promise<DialectAnswer> {
  const { path, ollama, body } = dialect
  const base = ollama === true ? (door.ollamaUrl ?? '') : door.url
  const response = await postJson(
    base + path,
    key,
    { model, stream, ...body },
    { headers: dialect.headers, keepalive: false },
  )
  const pieces: Uint8Array[] = []
  let whole = true
  try {
    for await (const piece of response.body ?? []) pieces.push(piece)
  } catch {
    whole = false
  }
  const bytes = Buffer.concat(pieces)
  return { status: response.status, text: bytes.toString('utf8'), bytes: bytes.length, whole }
}

/** `served`: to its end; `failed`: by the dialect's own error; `broken`: neither. */
export function endOf(
  dialect: Dialect,
  { status, text, whole }: DialectAnswer,
  stream: boolean,
): 'served' | 'failed' | 'broken' {
  if (!whole) return 'broken'
  if (status !== 200) return status === 502 ? 'failed' : 'broken'
  if (!stream) return 'served'
  if (text.includes(dialect.failed)) return 'failed'
  return text.includes(dialect.ended) ? 'served' : 'broken'
}
