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
const { messages: _, ...answering } = DemoRequest.properties
const DemoCompletionRequest = t.Object({ prompt: t.String(), ...answering })

/** How an answer is written on a path. */
interface Form {
  readonly idPrefix: string
  readonly object: string
  readonly chunk: string
  readonly choice: (text: string) => object
  /** null: nothing but the end. */
  readonly piece: (text: string | null) => object
  /** Before the first piece. */
  readonly head: object | null
}
const asChat: Form = {
  idPrefix: 'chatcmpl',
  object: 'chat.completion',
  chunk: 'chat.completion.chunk',
  choice: (content) => ({ message: { role: 'assistant', content } }),
  piece: (content) => ({ delta: content === null ? {} : { content } }),
  head: { delta: { role: 'assistant', content: '' } },
}
const asText: Form = {
  idPrefix: 'cmpl',
  object: 'text_completion',
  chunk: 'text_completion',
  choice: (text) => ({ text }),
  piece: (text) => ({ text: text ?? '' }),
  head: null,
}

interface DemoReply {
  readonly form: Form
  readonly id: string
  readonly created: number
  readonly tokens: readonly string[]
  readonly finishReason: 'stop' | 'length'
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number; readonly total_tokens: number }
}

/** A tiny text generator on loopback that speaks OpenAI's chat and text completions and says that it is a demo (§22). */
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
      const read = request.method === 'POST' ? readers[pathname] : undefined
      if (read === undefined) return refusal(404, 'There is no such path.')
      const asked = read(foreignJson(await request.text()))
      if (asked === null) return refusal(400, 'The gateway sends no such request.')
      const { body, form } = asked
      const gone = new AbortController()
      open.add(gone)
      const end = () => {
        open.delete(gone)
        gone.abort()
      }
      request.signal.addEventListener('abort', end, { once: true })
      const reply = compose(body, form)
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

interface DemoCall {
  readonly body: DemoRequest
  readonly form: Form
}

/** By path; null: it is no request of its kind. */
const readers: Readonly<Record<string, (body: unknown) => DemoCall | null>> = {
  '/v1/chat/completions': (body) => (Value.Check(DemoRequest, body) ? { body, form: asChat } : null),
  '/v1/completions': (body) =>
    Value.Check(DemoCompletionRequest, body)
      ? { body: { ...body, messages: [{ role: 'user', content: body.prompt }] }, form: asText }
      : null,
}

function modelList(): object {
  const model = { id: demoModelId, object: 'model', created: 0, owned_by: demoOwner, max_model_len: contextLength }
  return { object: 'list', data: [model] }
}

function refusal(status: number, message: string): Response {
  return Response.json({ error: { message, type: 'invalid_request_error', param: null, code: null } }, { status })
}

function compose(request: DemoRequest, form: Form): DemoReply {
  const lastUser = request.messages.findLast((message) => message.role === 'user')
  const all = demoTokens(beforeStop(demoAnswer(textOf(lastUser?.content)), request.stop))
  const most = request.max_tokens ?? request.max_completion_tokens ?? all.length
  const tokens = all.slice(0, most)
  const prompt = request.messages.reduce((sum, message) => sum + demoTokens(textOf(message.content)).length + 4, 0)
  return {
    form,
    id: `${form.idPrefix}-demo-${crypto.randomUUID()}`,
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
  return Response.json({
    id: reply.id,
    object: reply.form.object,
    created: reply.created,
    model: demoModelId,
    choices: [
      { index: 0, ...reply.form.choice(reply.tokens.join('')), finish_reason: reply.finishReason, logprobs: null },
    ],
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

/** A line for each token, behind the head that a chat has; the end and the usage stand after them. */
function linesOf({ form, ...reply }: DemoReply, withUsage: boolean): readonly string[] {
  const line = (choices: readonly object[], extra: object = {}) =>
    `data: ${JSON.stringify({ id: reply.id, object: form.chunk, created: reply.created, model: demoModelId, choices, ...extra })}\n\n`
  const choice = (piece: object, finishReason: string | null) => [{ index: 0, ...piece, finish_reason: finishReason }]
  return [
    ...(form.head === null ? [] : [line(choice(form.head, null))]),
    ...reply.tokens.map((text) => line(choice(form.piece(text), null))),
    line(choice(form.piece(null), reply.finishReason)),
    ...(withUsage ? [line([], { usage: reply.usage })] : []),
    'data: [DONE]\n\n',
  ]
}
