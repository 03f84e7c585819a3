import { Elysia } from 'elysia'
import type { Access } from '../../actors/accounts/access.ts'
import { type ChatCommand, type ChatRecord, uncalled } from '../../actors/chat/chat-command.ts'
import type { Operation } from '../../actors/operations/operation.ts'
import { operations, routeOf } from '../../actors/operations/registry.ts'
import { type ChatSample, chatRoute } from '../../actors/telemetry/metrics.ts'
import type { Span } from '../../actors/telemetry/tracing.ts'
import { headers } from '../../brand.ts'
import { newId, type RequestId } from '../../ids.ts'
import { idleSeconds } from '../../listener/connection-clock.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { secondMs } from '../../time.ts'
import type { PeerDirectory } from '../frame/client-address.ts'
import type { HttpContext } from '../frame/context.ts'
import { clientClosedStatus } from '../frame/failure.ts'
import { clientRequestId, logRequest } from '../frame/request-log.ts'
import { describe } from '../frame/route-table.ts'
import { inferenceAccess } from '../inference/inference-access.ts'
import { mixturePin, pinQuery, readPin } from '../inference/pin.ts'
import { respondToFailure } from '../plugins/problems.ts'

/** Beyond the time after which a client that reads nothing is cut off by the relay, s. */
const slowClientMarginSeconds = 15

/** A stream writes again and again, which starts Bun's clock anew; what it must outlast is a client that reads nothing. */
function restSeconds({ gateway: { config } }: HttpContext, kind: 'whole' | 'stream'): number {
  if (kind === 'whole') return idleSeconds
  return Math.max(idleSeconds, Math.ceil(config.SVC_SLOW_CLIENT_TIMEOUT_MS / secondMs) + slowClientMarginSeconds)
}

/** A mixture is a chat, and a request of another kind to whoever looks for what was slow. */
const mixtureName = 'mixture'

/** An operation where it is mounted. */
interface Door {
  readonly context: HttpContext
  readonly operation: Operation
  /** The canonical path: metrics, traces and log lines know the operation by it. */
  readonly route: string
  readonly measure: (sample: ChatSample) => void
}

/** One request as its log line knows it. The general hooks are left out here: they cost as much as the routing. */
class RequestLine {
  readonly requestId: RequestId = newId('req')
  readonly startedMs = performance.now()
  readonly address: string
  /** Read at once: a line that kept its request would keep all of its headers for as long as a stream runs. */
  private readonly clientRequestId: string | null
  /** null: traces are off, or not wanted for this request. */
  readonly span: Span | null
  access: Access | null = null
  stream = false
  mixed = false
  private recorded = false

  constructor(
    private readonly door: Door,
    request: Request,
    server: PeerDirectory | null,
  ) {
    const { context, route } = door
    this.clientRequestId = clientRequestId(request)
    this.address = context.clientAddress(request, server)
    const { tracing } = context.gateway
    this.span = tracing === null ? null : tracing.request('POST', route, request.headers.get('traceparent'))
  }

  readonly record = (record: ChatRecord): void => {
    if (this.recorded) return
    this.recorded = true
    const { route, measure, context } = this.door
    const { gateway } = context
    if (this.span !== null) this.span.endRequest(record.status, record.code)
    measure({
      status: record.status,
      durationS: record.latencyMs / 1_000,
      ttftS: record.ttftMs === null ? null : record.ttftMs / 1_000,
      promptTokens: record.usage?.prompt_tokens ?? 0,
      completionTokens: record.usage?.completion_tokens ?? 0,
      model: record.model,
      nodeId: record.nodeId,
      stream: this.stream,
      code: record.code,
    })
    logRequest(gateway.log, {
      requestId: this.requestId,
      route,
      method: 'POST',
      status: record.status,
      code: record.code,
      latencyMs: record.latencyMs,
      keyId: this.access?.keyId ?? null,
      addressHash: gateway.hashAddress(this.address),
      clientRequestId: this.clientRequestId,
      jobId: record.jobId,
      model: record.model,
      nodeId: record.nodeId,
      tries: record.attempts,
      ttftMs: record.ttftMs,
      promptTokens: record.usage?.prompt_tokens ?? null,
      completionTokens: record.usage?.completion_tokens ?? null,
    })
    const { access } = this
    // A stranger leaves a line and a count, and cannot fill the table.
    if (access === null) return
    gateway.requests.write({
      requestId: this.requestId,
      customerId: access.customerId,
      keyId: access.keyId,
      operation: this.mixed ? mixtureName : this.door.operation.name,
      stream: this.stream,
      record,
    })
  }

  /** A refusal before the request reached the pool. */
  refused(status: number, code: ChatRecord['code']): void {
    const latencyMs = performance.now() - this.startedMs
    this.record({
      model: null,
      status,
      code,
      latencyMs,
      ttftMs: null,
      usage: null,
      attempts: 0,
      jobId: null,
      ...uncalled,
    })
  }
}

function queryOf(url: string): string {
  const at = url.indexOf('?')
  return at === -1 ? '' : url.slice(at + 1)
}

async function answer({ context, operation }: Door, request: Request, line: RequestLine): Promise<Response> {
  const { gateway, base, connections } = context
  const found = inferenceAccess(context, request, line.address)
  const access = found instanceof Promise ? await found : found
  line.access = access
  const text = await connections.arriving(request, readJsonText(request, gateway.config.SVC_CHAT_BODY_BYTES_MAX))
  // A model may think for minutes. From here to the answer the deadlines are ours.
  connections.lift(request)
  const body = operation.read(text)
  line.stream = body.stream === true
  const query = queryOf(request.url)
  // What cannot be mixed has refused to be (`refuseRouting`); what can has become a chat.
  const mixed = body.svc?.mixture !== undefined
  line.mixed = mixed
  const command: ChatCommand = {
    operation,
    requestId: line.requestId,
    startedMs: line.startedMs,
    access,
    body,
    text,
    pin: mixed ? null : readPin(body, query),
    query,
    idempotencyKey: request.headers.get('idempotency-key'),
    signal: request.signal,
    span: line.span,
    finished: line.record,
  }
  const answered = await (mixed
    ? gateway.mixtures.complete({ ...(command as ChatCommand<ChatRequest>), pinParam: mixturePin(body, query) })
    : gateway.chat.complete(command))
  connections.rest(request, restSeconds(context, answered.kind))
  const common = { ...base, ...answered.headers, [headers.requestId]: line.requestId }
  if (answered.kind === 'stream') {
    return new Response(answered.stream, { headers: { ...eventStreamHeaders, ...common } })
  }
  return new Response(answered.body, {
    headers: { 'content-type': 'application/json', 'cache-control': 'no-store', ...common },
  })
}

async function serve(door: Door, request: Request, server: PeerDirectory | null): Promise<Response> {
  const { context, route } = door
  const line = new RequestLine(door, request, server)
  try {
    return await answer(door, request, line)
  } catch (error) {
    context.connections.rest(request)
    if (request.signal.aborted) {
      line.refused(clientClosedStatus, null)
      return new Response(null, { status: clientClosedStatus })
    }
    const { response, problem } = respondToFailure(context, error, { requestId: line.requestId, route })
    line.refused(response.status, problem?.code ?? null)
    return response
  }
}

/** The rest is beyond the specification. */
const specified: ReadonlySet<string> = new Set([chatRoute])

/** Every operation, by one handler (§28); chat is endpoint 2. */
export function inferenceRoutes(context: HttpContext) {
  const app = new Elysia()
  for (const operation of operations) {
    const route = routeOf(operation)
    const door: Door = { context, operation, route, measure: context.gateway.metrics.operation(route) }
    const { summary, description, schema } = operation
    app.post(route, ({ request, server }) => serve(door, request, server), {
      parse: 'none',
      detail: {
        ...describe({
          summary,
          description,
          tags: [specified.has(route) ? 'Inference' : 'Inference (extension)'],
          query: pinQuery,
          body: schema,
        }),
        security: [{ gateway: [] }],
      },
    })
  }
  return app
}
