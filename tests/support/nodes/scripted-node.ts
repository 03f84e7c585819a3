import { type Exchange, listenHttp } from '../../../src/fake-node/http-connection.ts'
import { answerProbe, type Speaks } from '../../../src/fake-node/probe-answers.ts'

/** One inference request, answered by the test step by step. */
export interface ScriptedCall {
  readonly path: string
  readonly body: Record<string, unknown>
  readonly headers: Readonly<Record<string, string>>
  /** The gateway closed the connection before the answer was complete. */
  readonly gone: Promise<void>
  /** Status 200 and the headers of an event stream. */
  open(headers?: Readonly<Record<string, string>>): void
  /** One `data:` event; resolves when the kernel has taken it. */
  event(chunk: unknown): Promise<void>
  raw(bytes: string | Uint8Array): Promise<void>
  respond(status: number, body: unknown, headers?: Readonly<Record<string, string>>): void
  end(): void
  /** `reset`: RST; `fin`: a clean end in the middle of the body. */
  cut(how: 'reset' | 'fin'): void
}

export interface ScriptedNode {
  readonly url: string
  /** The next chat request, in the order of arrival. */
  next(): Promise<ScriptedCall>
  /** Chat requests so far. */
  readonly calls: number
  /** Answers this and every later request; with null, `next` hands them out again. */
  answer(script: ((call: ScriptedCall) => void | Promise<void>) | null): void
  stop(): void
}

const eventStream = { 'content-type': 'text/event-stream' }
const slotsOfLlamaCpp = 64
const json = { 'content-type': 'application/json' }

/** Of a form its plain fields. */
function bodyOf({ headers, body }: Exchange['request']): Record<string, unknown> {
  if (headers['content-type']?.startsWith('multipart/') !== true) return JSON.parse(body) as Record<string, unknown>
  const fields = body.matchAll(/name="([^"]+)"\r\n\r\n([^\r]*)\r\n/g)
  return Object.fromEntries([...fields].map(([, name = '', value]) => [name, value]))
}

function callOf(exchange: Exchange): ScriptedCall {
  return {
    path: exchange.request.path,
    body: bodyOf(exchange.request),
    headers: exchange.request.headers,
    gone: new Promise((resolve) => {
      exchange.onAbort(() => resolve())
    }),
    open: (headers = {}) => exchange.head(200, { ...eventStream, ...headers }),
    event: (chunk) => exchange.write(`data: ${typeof chunk === 'string' ? chunk : JSON.stringify(chunk)}\n\n`),
    raw: (bytes) => exchange.write(bytes),
    respond: (status, body, headers = {}) =>
      exchange.respond(status, { ...json, ...headers }, typeof body === 'string' ? body : JSON.stringify(body)),
    end: () => exchange.end(),
    cut: (how) => exchange.cut(how),
  }
}

const noFaults: Parameters<typeof answerProbe>[2] = { get: () => undefined }

/** A node that does nothing by itself: for tests in which the order of events is the point. */
export function startScriptedNode(model = 'm', speaks: Speaks = 'openai', slots = slotsOfLlamaCpp): ScriptedNode {
  const arrived: ScriptedCall[] = []
  const waiting: ((call: ScriptedCall) => void)[] = []
  let calls = 0
  let script: ((call: ScriptedCall) => void | Promise<void>) | null = null
  const chat = (call: ScriptedCall) => {
    calls++
    if (script !== null) return void script(call)
    const first = waiting.shift()
    if (first === undefined) arrived.push(call)
    else first(call)
  }
  const listener = listenHttp({ hostname: '127.0.0.1', port: 0 }, (exchange) => {
    if (exchange.request.method === 'POST') return chat(callOf(exchange))
    if (speaks !== 'openai') {
      const installed = { speaks, models: [model], contextLength: null, slots, busy: 0 }
      if (answerProbe(exchange, installed, noFaults)) return
    }
    if (exchange.request.path !== '/v1/models') return exchange.respond(404, json, '{}')
    exchange.respond(200, json, JSON.stringify({ object: 'list', data: [{ id: model, object: 'model' }] }))
  })
  return {
    url: `http://127.0.0.1:${listener.port}`,
    next: () => {
      const first = arrived.shift()
      return first === undefined ? new Promise((resolve) => waiting.push(resolve)) : Promise.resolve(first)
    },
    get calls() {
      return calls
    },
    answer: (given) => {
      script = given
    },
    stop: () => listener.close({ finishOpen: false }),
  }
}

/** A chunk as OpenAI-compatible servers write it. */
export function nodeChunk(delta: object, finishReason: string | null = null, more: object = {}): object {
  return {
    id: 'chatcmpl-node',
    object: 'chat.completion.chunk',
    created: 1,
    model: '/srv/node/weights.gguf',
    choices: [{ index: 0, delta, finish_reason: finishReason }],
    ...more,
  }
}

export const nodeUsage = { prompt_tokens: 9, completion_tokens: 2, total_tokens: 11 }
