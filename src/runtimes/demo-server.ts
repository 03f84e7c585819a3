import { Type as t } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import { sleep } from '../clock.ts'
import { foreignJson } from '../protocol/json/foreign-json.ts'
import { demoModelId, demoOwner } from './demo.ts'
import { demoAnswer, demoTokens } from './demo-text.ts'

export interface DemoRuntimeOptions {
  /** Default 0: any free one. */
  readonly port?: number
  /** Default 60: a pace that an eye can follow. */
  readonly tokensPerSecond?: number
}

export interface DemoRuntime {
  /** `http://127.0.0.1:<port>`, no slash at the end. */
  readonly url: string
  readonly port: number
  /** Answers under way. */
  readonly streams: number
  /** Ends it at once, with every answer under way. */
  stop(): Promise<void>
}

const tokensPerSecondDefault = 60
const contextLength = 8_192
const bodyBytesMax = 8 * 1024 * 1024

const DemoRequest = t.Object({
  messages: t.Array(t.Object({ role: t.String(), content: t.Optional(t.Unknown()) })),
  stream: t.Optional(t.Union([t.Boolean(), t.Null()])),
  stream_options: t.Optional(t.Union([t.Object({ include_usage: t.Optional(t.Boolean()) }), t.Null()])),
  max_tokens: t.Optional(t.Union([t.Integer({ minimum: 1 }), t.Null()])),
  max_completion_tokens: t.Optional(t.Union([t.Integer({ minimum: 1 }), t.Null()])),
  stop: t.Optional(t.Union([t.String(), t.Array(t.String()), t.Null()])),
})
type DemoRequest = typeof DemoRequest.static

interface DemoReply {
  readonly id: string
  readonly created: number
  readonly tokens: readonly string[]
  readonly finishReason: 'stop' | 'length'
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
}

/** A tiny text generator on loopback that speaks OpenAI chat completions and says that it is a demo (§22). */
export function startDemoRuntime(options: DemoRuntimeOptions = {}): DemoRuntime {
  const tokenMs = 1_000 / (options.tokensPerSecond ?? tokensPerSecondDefault)
  const open = new Set<AbortController>()
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: options.port ?? 0,
    maxRequestBodySize: bodyBytesMax,
    async fetch(request, listener) {
      listener.timeout(request, 0)
      const { pathname } = new URL(request.url)
      if (request.method === 'GET' && pathname === '/health') return Response.json({ status: 'ok' })
      if (request.method === 'GET' && pathname === '/v1/models') return Response.json(modelList())
      if (request.method !== 'POST' || pathname !== '/v1/chat/completions')
        return refusal(404, 'There is no such path.')
      const body = foreignJson(await request.text())
      if (!Value.Check(DemoRequest, body)) return refusal(400, 'This is not a chat request.')
      const gone = new AbortController()
      open.add(gone)
      const end = () => {
        open.delete(gone)
        gone.abort()
      }
      request.signal.addEventListener('abort', end, { once: true })
      const reply = compose(body)
      return body.stream === true
        ? streamed(reply, body, tokenMs, gone.signal, end)
        : whole(reply, tokenMs, gone.signal, end)
    },
  })
  return {
    url: `http://127.0.0.1:${server.port}`,
    port: server.port ?? 0,
    get streams() {
      return open.size
    },
    async stop() {
      for (const gone of open) gone.abort()
      open.clear()
      await server.stop(true)
    },
  }
}

function modelList(): object {
  const model = { id: demoModelId, object: 'model', created: 0, owned_by: demoOwner, max_model_len: contextLength }
  return { object: 'list', data: [model] }
}

function refusal(status: number, message: string): Response {
  return Response.json({ error: { message, type: 'invalid_request_error', param: null, code: null } }, { status })
}

function compose(request: DemoRequest): DemoReply {
  const lastUser = request.messages.findLast((message) => message.role === 'user')
  const all = demoTokens(beforeStop(demoAnswer(textOf(lastUser?.content)), request.stop))
  const most = request.max_tokens ?? request.max_completion_tokens ?? all.length
  const tokens = all.slice(0, most)
  const prompt = request.messages.reduce((sum, message) => sum + demoTokens(textOf(message.content)).length + 4, 0)
  return {
    id: `chatcmpl-demo-${crypto.randomUUID()}`,
    created: Math.floor(Date.now() / 1000),
    tokens,
    finishReason: tokens.length < all.length ? 'length' : 'stop',
    usage: { prompt_tokens: prompt, completion_tokens: tokens.length, total_tokens: prompt + tokens.length },
  }
}

/** Text of a message whose content is a string or a list of parts. */
function textOf(content: unknown): string {
  if (typeof content === 'string') return content
  if (!Array.isArray(content)) return ''
  return content.map((part) => (Value.Check(TextPart, part) ? part.text : '')).join(' ')
}
const TextPart = t.Object({ type: t.Literal('text'), text: t.String() })

function beforeStop(text: string, stop: DemoRequest['stop']): string {
  const words = typeof stop === 'string' ? [stop] : (stop ?? [])
  const cuts = words.filter((word) => word !== '').map((word) => text.indexOf(word))
  return text.slice(0, Math.min(text.length, ...cuts.filter((at) => at >= 0)))
}

/** Resolves at `atMs` of `performance.now()`; at once when `signal` aborts, and its timer goes with it. */
function until(atMs: number, signal: AbortSignal): Promise<void> {
  const leftMs = atMs - performance.now()
  return leftMs <= 0 ? Promise.resolve() : sleep(leftMs, signal)
}

async function whole(reply: DemoReply, tokenMs: number, signal: AbortSignal, end: () => void): Promise<Response> {
  await until(performance.now() + reply.tokens.length * tokenMs, signal)
  end()
  const message = { role: 'assistant', content: reply.tokens.join('') }
  return Response.json({
    id: reply.id,
    object: 'chat.completion',
    created: reply.created,
    model: demoModelId,
    choices: [{ index: 0, message, finish_reason: reply.finishReason, logprobs: null }],
    usage: reply.usage,
  })
}

function streamed(
  reply: DemoReply,
  request: DemoRequest,
  tokenMs: number,
  signal: AbortSignal,
  end: () => void,
): Response {
  const encoder = new TextEncoder()
  const startMs = performance.now()
  const lines = linesOf(reply, request.stream_options?.include_usage === true)
  let at = 0
  const stream = new ReadableStream<Uint8Array>({
    async pull(controller) {
      await until(startMs + Math.min(at, reply.tokens.length) * tokenMs, signal)
      const line = signal.aborted ? undefined : lines[at]
      if (line === undefined) {
        controller.close()
        end()
        return
      }
      at += 1
      controller.enqueue(encoder.encode(line))
    },
    cancel: end,
  })
  const headers = { 'content-type': 'text/event-stream; charset=utf-8', 'cache-control': 'no-cache' }
  return new Response(stream, { headers })
}

/** Line i + 1 is token i; the role stands before them, the end and the usage after. */
function linesOf(reply: DemoReply, withUsage: boolean): readonly string[] {
  const line = (choices: readonly object[], extra: object = {}) =>
    `data: ${JSON.stringify({ id: reply.id, object: 'chat.completion.chunk', created: reply.created, model: demoModelId, choices, ...extra })}\n\n`
  const choice = (delta: object, finishReason: string | null) => [{ index: 0, delta, finish_reason: finishReason }]
  return [
    line(choice({ role: 'assistant', content: '' }, null)),
    ...reply.tokens.map((content) => line(choice({ content }, null))),
    line(choice({}, reply.finishReason)),
    ...(withUsage ? [line([], { usage: reply.usage })] : []),
    'data: [DONE]\n\n',
  ]
}
