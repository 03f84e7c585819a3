import type { Access } from '../../actors/accounts/access.ts'
import type { ChatAnswer, ChatCommand } from '../../actors/chat/chat-command.ts'
import type { InferenceRequest, Operation, SentForm } from '../../actors/operations/operation.ts'
import { pathsOf, routeOf } from '../../actors/operations/registry.ts'
import type { ChatSample } from '../../actors/telemetry/metrics.ts'
import { Problem } from '../../errors.ts'
import { idleSeconds } from '../../listener/connection-clock.ts'
import { meantModel } from '../../machines/rules/eligibility.ts'
import { eventStreamHeaders } from '../../protocol/chat/sse.ts'
import { readJsonText } from '../../protocol/json/json-body.ts'
import { anthropicRequestId } from '../../protocol/json/problem-response.ts'
import { FormBody } from '../../protocol/media/form-body.ts'
import type { FormRules } from '../../protocol/media/form-filter.ts'
import type { ChatRequest } from '../../protocol/wire/inference/chat.ts'
import { secondMs } from '../../time.ts'
import type { PeerDirectory } from '../frame/client-address.ts'
import type { HttpContext } from '../frame/context.ts'
import { namedOrigin } from '../frame/cors.ts'
import { clientClosedStatus } from '../frame/failure.ts'
import { keptBody } from '../frame/kept-body.ts'
import { respondToFailure } from '../plugins/problems.ts'
import { AnswerHeaders } from './answer-headers.ts'
import { readNonce } from './client-nonce.ts'
import { inferenceAccess } from './inference-access.ts'
import { InferenceLine, type InferencePlace } from './inference-line.ts'
import { mixturePin, readPin } from './pin.ts'
import { readSession } from './session.ts'
import { readTags } from './tags.ts'

/** Beyond the time after which a client that reads nothing is cut off by the relay, s. */
const slowClientMarginSeconds = 15
const wholeHeaders = { 'content-type': 'application/json', 'cache-control': 'no-store' }

function queryOf(url: string): string {
  const at = url.indexOf('?')
  return at === -1 ? '' : url.slice(at + 1)
}

async function readableFor(named: Readonly<Record<string, string>>, answering: Promise<Response>): Promise<Response> {
  const response = await answering
  for (const name in named) response.headers.set(name, named[name] ?? '')
  return response
}

/**
 * One inference operation on HTTP: handles each POST to its path. Every request runs through this file, so it has only
 * one suspended function and no object that merely passes values on.
 */
export class InferenceDoor implements InferencePlace {
  readonly route: string
  readonly measure: (sample: ChatSample) => void
  private readonly whole: AnswerHeaders
  private readonly stream: AnswerHeaders
  /** Every write of a stream restarts Bun's clock. The clock must outlast the wait for a client that reads nothing. */
  private readonly streamRestSeconds: number

  constructor(
    readonly context: HttpContext,
    readonly operation: Operation,
  ) {
    const { base, gateway } = context
    this.route = routeOf(operation)
    this.measure = gateway.metrics.operation(this.route)
    const alsoId = operation.envelope === 'anthropic' ? anthropicRequestId : null
    this.whole = new AnswerHeaders({ ...wholeHeaders, ...base }, alsoId)
    const { streamType } = operation
    const streamed = streamType === undefined ? {} : { 'content-type': streamType }
    this.stream = new AnswerHeaders({ ...eventStreamHeaders, ...streamed, ...base }, alsoId)
    const slowClientSeconds = Math.ceil(gateway.config.SVC_SLOW_CLIENT_TIMEOUT_MS / secondMs)
    this.streamRestSeconds = Math.max(idleSeconds, slowClientSeconds + slowClientMarginSeconds)
  }

  /** The answer, readable for the pages that the operator has named. Costs nothing where there are none. */
  handle(request: Request, server: PeerDirectory | null): Promise<Response> {
    const answering = this.answer(request, server)
    const named = namedOrigin(this.context.gateway.config.SVC_CORS_ORIGINS, request)
    return named === null ? answering : readableFor(named, answering)
  }

  private async answer(request: Request, server: PeerDirectory | null): Promise<Response> {
    const { context } = this
    const { connections, gateway } = context
    const line = new InferenceLine(this, request, server)
    try {
      const found = inferenceAccess(context, request, line.address)
      const access = found instanceof Promise ? await found : found
      line.access = access
      if (access.policy.sealedOnly) throw new Problem('sealed_only')
      // Before its body is read: of what this customer has asked for already, more is kept than fits.
      if (!gateway.memory.admits(access.customerId)) throw gateway.memory.refusal()
      if (this.operation.form !== undefined) return await this.answerForm(request, line, access, this.operation.form)
      const { SVC_CHAT_BODY_BYTES_MAX: bytesMax } = gateway.config
      const text = await connections.arriving(request, readJsonText(request, bytesMax, context.jsonTypes))
      // A model may think for minutes. From here to the answer the deadlines are ours.
      connections.lift(request)
      const answered = await this.complete(this.commandOf(line, access, request, text))
      return this.respond(request, line, answered)
    } catch (error) {
      return this.refuse(request, line, error)
    }
  }

  /** A form is read while it is sent on: it has deadlines of its own. */
  private async answerForm(request: Request, line: InferenceLine, access: Access, rules: FormRules): Promise<Response> {
    // Before a byte is read: of what this account sends, some is held.
    if (access.accountStatus !== 'active') throw new Problem('account_suspended')
    const { memory } = this.context.gateway
    const form = FormBody.of(request, rules, { memory, customerId: access.customerId })
    this.context.connections.lift(request)
    try {
      const sent = { model: await form.model(), form }
      return this.respond(request, line, await this.complete(this.commandOf(line, access, request, '', sent)))
    } finally {
      // Before there is an answer, the node has all of it.
      form.close()
    }
  }

  private commandOf(line: InferenceLine, access: Access, request: Request, text: string, sent?: SentForm): ChatCommand {
    const { operation } = this
    const body = operation.read(text, sent)
    const models = body.svc?.mixture === undefined ? this.named(access, body) : null
    line.stream = body.stream === true
    line.mixed = body.svc?.mixture !== undefined
    line.tags = readTags(request, body)
    const query = queryOf(request.url)
    return {
      operation,
      requestId: line.requestId,
      startedMs: line.startedMs,
      access,
      body,
      models,
      text: operation.written?.(body) ?? text,
      pin: body.svc?.mixture === undefined ? readPin(body, query) : null,
      query,
      session: readSession(request),
      idempotencyKey: request.headers.get('idempotency-key'),
      clientNonce: readNonce(request, operation, body, text),
      signal: request.signal,
      span: line.span,
      recorder: line,
    }
  }

  /**
   * Puts the name in place that its client means, and gives all of them where there are several. A mixture has names of its own, and
   * one that is no more than a label.
   */
  private named(access: Access, body: InferenceRequest): readonly string[] | null {
    const named = body as { model: string }
    named.model = this.meant(access, body.model)
    if (body.models == null || body.models.length === 0) return null
    const all = new Set([body.model, ...body.models.map((name) => this.meant(access, name))])
    return all.size === 1 ? null : [...all]
  }

  private meant(access: Access, name: string): string {
    const { otherName, gateway } = this.context
    const table = gateway.router.table()
    if (otherName === null && !table.latest.has(name)) return name
    return meantModel({ table, access, name, otherName })
  }

  private complete(command: ChatCommand): Promise<ChatAnswer> {
    const { body, query } = command
    const { chat, mixtures } = this.context.gateway
    // What cannot be mixed has refused to be (`refuseRouting`); what can has become a chat.
    return body.svc?.mixture === undefined
      ? chat.complete(command)
      : mixtures.complete({ ...(command as ChatCommand<ChatRequest>), pinParam: mixturePin(body, query) })
  }

  private respond(request: Request, { requestId }: InferenceLine, answered: ChatAnswer): Response {
    const { connections } = this.context
    if (answered.kind === 'stream') {
      connections.rest(request, this.streamRestSeconds)
      return new Response(answered.stream, { headers: this.stream.of(requestId, answered.headers) })
    }
    if (answered.kind === 'bytes') {
      connections.rest(request, this.streamRestSeconds)
      const said = { ...answered.headers, 'content-type': answered.contentType }
      return new Response(answered.stream, { headers: this.whole.of(requestId, said) })
    }
    connections.rest(request)
    const { body, kept } = answered
    return new Response(kept === null ? body : keptBody(body, kept, request.signal), {
      headers: this.whole.of(requestId, answered.headers),
    })
  }

  private refuse(request: Request, line: InferenceLine, error: unknown): Response {
    this.context.connections.rest(request)
    if (request.signal.aborted) {
      line.refused(clientClosedStatus, null)
      return new Response(null, { status: clientClosedStatus })
    }
    const place = { requestId: line.requestId, route: this.route, sent: request.headers }
    const { response, problem } = respondToFailure(this.context, error, place)
    line.refused(response.status, problem?.code ?? null)
    return response
  }
}

/** A door for each operation, by each of its paths. */
export function inferenceDoors(
  context: HttpContext,
  operations: readonly Operation[],
): ReadonlyMap<string, InferenceDoor> {
  const doors = operations.map((operation) => new InferenceDoor(context, operation))
  return new Map(doors.flatMap((door) => pathsOf(door.operation).map((path) => [path, door] as const)))
}
