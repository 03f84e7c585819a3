import type { Access } from '../../actors/accounts/access.ts'
import type { ChatCommand } from '../../actors/chat/chat-command.ts'
import type { Operation } from '../../actors/operations/operation.ts'
import { routeOf } from '../../actors/operations/registry.ts'
import { KeyMismatch, type SealedAnswer, sealedChat } from '../../actors/sealed/sealed-chat.ts'
import { type SealedRequest, sealedOperations } from '../../actors/sealed/sealed-operation.ts'
import type { ChatSample } from '../../actors/telemetry/metrics.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { modelIdPattern } from '../../ids.ts'
import { meantModel } from '../../machines/rules/eligibility.ts'
import { encapsulatedKeyHeader, keyMismatchType, readHex32, responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { readBytes } from '../../protocol/sealed/read-bytes.ts'
import type { PeerDirectory } from '../frame/client-address.ts'
import type { HttpContext } from '../frame/context.ts'
import { namedOrigin } from '../frame/cors.ts'
import { clientClosedStatus } from '../frame/failure.ts'
import { respondToFailure } from '../plugins/problems.ts'
import { inferenceAccess } from './inference-access.ts'
import { InferenceLine, type InferencePlace } from './inference-line.ts'
import { readSession } from './session.ts'
import { readTags } from './tags.ts'

const tokensPattern = /^[1-9][0-9]{0,6}$/
const tokensMax = 1_048_576

/** One sealed operation on HTTP. Beyond its headers it reads nothing of a request, and nothing of an answer. */
class SealedDoor implements InferencePlace {
  readonly route: string
  readonly measure: (sample: ChatSample) => void
  private readonly complete: (command: ChatCommand<SealedRequest>) => Promise<SealedAnswer>

  constructor(
    readonly context: HttpContext,
    private readonly sealed: Operation<SealedRequest>,
  ) {
    this.route = routeOf(sealed)
    this.measure = context.gateway.metrics.operation(this.route)
    this.complete = sealedChat(context.gateway.chat)
  }

  get operation(): Operation {
    return this.sealed as Operation
  }

  async handle(request: Request, server: PeerDirectory | null, nodeId: string): Promise<Response> {
    const response = await this.answer(request, server, nodeId)
    const named = namedOrigin(this.context.gateway.config.SVC_CORS_ORIGINS, request)
    for (const name in named) response.headers.set(name, named[name] ?? '')
    return response
  }

  private async answer(request: Request, server: PeerDirectory | null, nodeId: string): Promise<Response> {
    const { connections, gateway } = this.context
    const line = new InferenceLine(this, request, server)
    try {
      const access = await inferenceAccess(this.context, request, line.address)
      line.access = access
      if (access.accountStatus !== 'active') throw new Problem('account_suspended')
      if (!gateway.memory.admits(access.customerId)) throw gateway.memory.refusal()
      const body = this.named(access, bodyOf(request))
      const { SVC_CHAT_BODY_BYTES_MAX: bytesMax } = gateway.config
      const bytes = await connections.arriving(request, readBytes(request, bytesMax))
      if (bytes.length === 0) throw new Problem('invalid_request', { detail: 'The body is empty' })
      // A model may think for minutes. From here to the answer the deadlines are ours.
      connections.lift(request)
      const sealed = { ...body.sealed, bytes }
      return this.respond(
        request,
        line,
        await this.complete(this.commandOf(line, access, request, nodeId, { ...body, sealed })),
      )
    } catch (error) {
      return this.refuse(request, line, error)
    }
  }

  /** With the name in place that its client means (§28). */
  private named(access: Access, body: SealedRequest): SealedRequest {
    const table = this.context.gateway.router.table()
    if (!table.latest.has(body.model)) return body
    return { ...body, model: meantModel({ table, access, name: body.model, ownOnly: true }) }
  }

  private commandOf(
    line: InferenceLine,
    access: Access,
    request: Request,
    nodeId: string,
    body: SealedRequest,
  ): ChatCommand<SealedRequest> {
    line.tags = readTags(request, null)
    return {
      operation: this.sealed,
      requestId: line.requestId,
      startedMs: line.startedMs,
      access,
      body,
      text: '',
      pin: nodeId,
      query: '',
      session: readSession(request),
      idempotencyKey: null,
      clientNonce: null,
      signal: request.signal,
      span: line.span,
      recorder: line,
    }
  }

  private respond(request: Request, line: InferenceLine, answer: SealedAnswer): Response {
    this.context.connections.rest(request, this.restSeconds())
    const { status, nonce, contentType, retryAfter, stream } = answer
    return new Response(stream, {
      status,
      headers: {
        ...this.context.base,
        ...answer.headers,
        'content-type': contentType,
        'cache-control': 'no-store, no-transform',
        'x-accel-buffering': 'no',
        [responseNonceHeader]: nonce,
        [headers.requestId]: line.requestId,
        ...(retryAfter === null ? {} : { 'retry-after': retryAfter }),
      },
    })
  }

  /** Beyond the time after which a client that reads nothing is cut off by the relay, s. */
  private restSeconds(): number {
    return Math.max(75, Math.ceil(this.context.gateway.config.SVC_SLOW_CLIENT_TIMEOUT_MS / 1_000) + 15)
  }

  private refuse(request: Request, line: InferenceLine, error: unknown): Response {
    this.context.connections.rest(request)
    if (request.signal.aborted) {
      line.refused(clientClosedStatus, null)
      return new Response(null, { status: clientClosedStatus })
    }
    if (error instanceof KeyMismatch) {
      line.refused(error.status, error.code)
      return keyMismatch(this.context.base, line.requestId)
    }
    const place = { requestId: line.requestId, route: this.route, sent: request.headers }
    const { response, problem } = respondToFailure(this.context, error, place)
    line.refused(response.status, problem?.code ?? null)
    return response
  }
}

function keyMismatch(base: Readonly<Record<string, string>>, requestId: string): Response {
  const title = 'No key of this node opens the request. Fetch its keys again and seal anew.'
  return new Response(JSON.stringify({ type: keyMismatchType, title, status: 422, request_id: requestId }), {
    status: 422,
    headers: { ...base, 'content-type': 'application/problem+json', [headers.requestId]: requestId },
  })
}

/** What the request says in the clear. Throws `invalid_parameter`. */
function bodyOf({ headers: sent }: Request): SealedRequest {
  const model = sent.get(headers.sealedModel)
  const enc = sent.get(encapsulatedKeyHeader)
  const tokens = sent.get(headers.maxTokens)
  if (model === null || !modelIdPattern.test(model)) {
    throw faulty(headers.sealedModel, 'must be the model that the sealed body asks for')
  }
  if (enc === null || readHex32(enc) === null) throw faulty(encapsulatedKeyHeader, 'must be 64 lower-case hex digits')
  if (tokens !== null && !(tokensPattern.test(tokens) && Number(tokens) <= tokensMax)) {
    throw faulty(headers.maxTokens, `must be a whole number from 1 to ${tokensMax}`)
  }
  return {
    model,
    ...(tokens === null ? {} : { max_tokens: Number(tokens) }),
    sealed: { enc, clientModel: model, bytes: new Uint8Array() },
  }
}

const faulty = (name: string, detail: string) =>
  new Problem('invalid_parameter', { param: `header.${name}`, detail: `The header ${name} ${detail}` })

export const sealedDoors = (context: HttpContext): readonly SealedDoor[] =>
  sealedOperations.map((operation) => new SealedDoor(context, operation))
