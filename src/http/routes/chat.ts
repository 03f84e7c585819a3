import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import type { ChatAnswer, ChatCommand, ChatRecord } from '../../actors/chat/chat-command.ts'
import { chatRoute } from '../../actors/telemetry/metrics.ts'
import type { Span } from '../../actors/telemetry/tracing.ts'
import { headers } from '../../brand.ts'
import { newId, type RequestId } from '../../ids.ts'
import { idleSeconds } from '../../listener/connection-clock.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { secondMs } from '../../time.ts'
import { chatAccess } from '../chat/chat-access.ts'
import { mixturePin, readChatBody, readPin } from '../chat/chat-body.ts'
import type { PeerDirectory } from '../frame/client-address.ts'
import type { HttpContext } from '../frame/context.ts'
import { clientClosedStatus } from '../frame/failure.ts'
import { clientRequestId, logRequest } from '../frame/request-log.ts'
import { describe } from '../frame/route-table.ts'
import { respondToFailure } from '../plugins/problems.ts'

/** Beyond the time after which a client that reads nothing is cut off by the relay, s. */
const slowClientMarginSeconds = 15

/** A stream writes again and again, which starts Bun's clock anew; what it must outlast is a client that reads nothing. */
function restSeconds({ gateway: { config } }: HttpContext, kind: 'whole' | 'stream'): number {
  if (kind === 'whole') return idleSeconds
  return Math.max(idleSeconds, Math.ceil(config.SVC_SLOW_CLIENT_TIMEOUT_MS / secondMs) + slowClientMarginSeconds)
}

/** One request as its log line knows it. The general hooks are left out here: they cost as much as the routing. */
class ChatRequestLine {
  readonly requestId: RequestId = newId('req')
  readonly startedMs = performance.now()
  readonly address: string
  /** Read at once: a line that kept its request would keep all of its headers for as long as a stream runs. */
  private readonly clientRequestId: string | null
  /** null: traces are off, or not wanted for this request. */
  readonly span: Span | null
  access: Access | null = null
  stream = false
  private recorded = false

  constructor(
    private readonly context: HttpContext,
    request: Request,
    server: PeerDirectory | null,
  ) {
    this.clientRequestId = clientRequestId(request)
    this.address = context.clientAddress(request, server)
    const { tracing } = context.gateway
    this.span = tracing === null ? null : tracing.request('POST', chatRoute, request.headers.get('traceparent'))
  }

  readonly record = (record: ChatRecord): void => {
    if (this.recorded) return
    this.recorded = true
    const { gateway } = this.context
    if (this.span !== null) this.span.endRequest(record.status, record.code)
    gateway.metrics.chat({
      status: record.status,
      durationS: record.latencyMs / 1_000,
      ttftS: record.ttftMs === null ? null : record.ttftMs / 1_000,
      promptTokens: record.usage?.prompt_tokens ?? 0,
      completionTokens: record.usage?.completion_tokens ?? 0,
      model: record.model,
      stream: this.stream,
      code: record.code,
    })
    logRequest(gateway.log, {
      requestId: this.requestId,
      route: chatRoute,
      method: 'POST',
      status: record.status,
      code: record.code,
      latencyMs: record.latencyMs,
      keyId: this.access?.keyId ?? null,
      addressHash: gateway.hashAddress(this.address),
      clientRequestId: this.clientRequestId,
      jobId: record.jobId,
    })
  }

  /** A refusal before the request reached the pool. */
  refused(status: number, code: ChatRecord['code']): void {
    const latencyMs = performance.now() - this.startedMs
    this.record({ model: null, status, code, latencyMs, ttftMs: null, usage: null, attempts: 0, jobId: null })
  }
}

function queryOf(url: string): string {
  const at = url.indexOf('?')
  return at === -1 ? '' : url.slice(at + 1)
}

function commandOf(line: ChatRequestLine, access: Access, request: Request, text: string): ChatCommand {
  const body = readChatBody(text)
  line.stream = body.stream === true
  const query = queryOf(request.url)
  return {
    requestId: line.requestId,
    startedMs: line.startedMs,
    access,
    body,
    text,
    pin: isMixture(body) ? null : readPin(body, query),
    query,
    idempotencyKey: request.headers.get('idempotency-key'),
    signal: request.signal,
    span: line.span,
    finished: line.record,
  }
}

const isMixture = (body: ChatRequest) => body.svc?.mixture !== undefined

function complete({ gateway }: HttpContext, command: ChatCommand): Promise<ChatAnswer> {
  const { body, query } = command
  return isMixture(body)
    ? gateway.mixtures.complete({ ...command, pinParam: mixturePin(body, query) })
    : gateway.chat.complete(command)
}

/** Headers of the one kind of answer, over and over: Bun copies them in a third of the time that it takes to read an object. */
class AnswerHeaders {
  private readonly known: Headers

  constructor(fixed: Readonly<Record<string, string>>) {
    this.known = new Headers(fixed)
  }

  /** To be copied at once. */
  of(requestId: RequestId, limits: Readonly<Record<string, string>>): Headers {
    let all = this.known
    for (const name in limits) {
      if (all === this.known) all = new Headers(all)
      all.set(name, limits[name] ?? '')
    }
    all.set(headers.requestId, requestId)
    return all
  }
}

const wholeHeaders = { 'content-type': 'application/json', 'cache-control': 'no-store' }

/** What comes for a POST to the chat route, whoever routed it here. */
export type ChatHandler = (request: Request, server: PeerDirectory | null) => Promise<Response>

export function chatHandler(context: HttpContext): ChatHandler {
  const { gateway, base, connections } = context
  const whole = new AnswerHeaders({ ...wholeHeaders, ...base })
  const stream = new AnswerHeaders({ ...eventStreamHeaders, ...base })
  const bodyBytesMax = gateway.config.SVC_CHAT_BODY_BYTES_MAX
  return async (request, server) => {
    const line = new ChatRequestLine(context, request, server)
    try {
      const found = chatAccess(context, request, line.address)
      const access = found instanceof Promise ? await found : found
      line.access = access
      const text = await connections.arriving(request, readJsonText(request, bodyBytesMax))
      // A model may think for minutes. From here to the answer the deadlines are ours.
      connections.lift(request)
      const answered = await complete(context, commandOf(line, access, request, text))
      connections.rest(request, restSeconds(context, answered.kind))
      const kind = answered.kind === 'stream' ? stream : whole
      const body = answered.kind === 'stream' ? answered.stream : answered.body
      return new Response(body, { headers: kind.of(line.requestId, answered.headers) })
    } catch (error) {
      return refuse(context, request, line, error)
    }
  }
}

function refuse(context: HttpContext, request: Request, line: ChatRequestLine, error: unknown): Response {
  context.connections.rest(request)
  if (request.signal.aborted) {
    line.refused(clientClosedStatus, null)
    return new Response(null, { status: clientClosedStatus })
  }
  const { response, problem } = respondToFailure(context, error, { requestId: line.requestId, route: chatRoute })
  line.refused(response.status, problem?.code ?? null)
  return response
}

/** Endpoint 2. */
export const chatRoutes = (handle: ChatHandler) =>
  new Elysia().post(chatRoute, ({ request, server }) => handle(request, server), {
    parse: 'none',
    detail: {
      ...describe({
        summary: 'Complete a chat',
        description:
          'OpenAI-compatible. Fields that are not listed pass through to the node; `svc` is read by the gateway and never sent on.',
        tags: ['Inference'],
      }),
      security: [{ gateway: [] }],
    },
  })
