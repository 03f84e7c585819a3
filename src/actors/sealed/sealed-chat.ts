import { headers } from '../../brand.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { encapsulatedKeyHeader, keyMismatchType, readHex32, responseNonceHeader } from '../../protocol/sealed/ehbp.ts'
import { sealedPath } from '../../protocol/wire/nodes/sealed-usage.ts'
import { errorText } from '../../transport/error-text.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import { admit, type Chat, checkPolicy } from '../chat/chat.ts'
import { type ChatCommand, outputAsked } from '../chat/chat-command.ts'
import type { Exchange } from '../chat/exchange.ts'
import { timedHeader, wayToNode } from '../chat/node-call.ts'
import { outputCeiling, placementRequest } from '../chat/wanted.ts'
import { dispatch } from '../dispatch/dispatch.ts'
import type { Attempt, AttemptFailure } from '../relay/attempt.ts'
import { SealedBinding } from './sealed-binding.ts'
import type { SealedRequest } from './sealed-operation.ts'
import { SealedRelay } from './sealed-relay.ts'

/** A node's sealed answer, of which the relay knows its head. */
export interface SealedAnswer {
  readonly status: number
  readonly nonce: string
  readonly contentType: string
  readonly retryAfter: string | null
  readonly stream: ReadableStream<Uint8Array>
  /** The state of the account's limits. */
  readonly headers: Readonly<Record<string, string>>
}

/** No key of the node opens the request: it has done nothing, and the client asks for its keys again. EHBP has a status of its own for it. */
export class KeyMismatch extends Problem {
  constructor() {
    super('invalid_request')
  }
  override get status(): number {
    return 422
  }
}

/** Failures before the node has said anything: the client's side seals for another node, which the gateway cannot do. */
const unavailable: ReadonlySet<ProblemCode> = new Set([
  'upstream_error',
  'upstream_timeout',
  'node_lost',
  'no_route_available',
])
const retrySeconds = 2
/** Seconds; a node says it outside of the seal, so that nothing else may stand there. */
const retryPattern = /^[0-9]{1,5}$/
const typePattern = /^(?:application\/json|text\/event-stream)\s*(?:;|$)/

/** An answer or a refusal inside of the seal; a status that forbids a body, or leads elsewhere, is neither. */
const isAnswer = (status: number) => status === 200 || (status >= 400 && status <= 599)

export const sealedChat =
  (chat: Chat) =>
  (command: ChatCommand<SealedRequest>): Promise<SealedAnswer> =>
    chat.during(command as ChatCommand, (exchange) => run(exchange, command.body.sealed))

async function run(exchange: Exchange, sealed: SealedRequest['sealed']): Promise<SealedAnswer> {
  checkPolicy(exchange.command)
  const request = placementRequest(exchange)
  const ceiling = outputCeiling(exchange)
  const admitted = admit(exchange, request, ceiling, 1)
  if (admitted !== null) await admitted
  exchange.port.ticker.add(exchange)
  const most = outputAsked(exchange.command) ?? ceiling
  try {
    const answer = await dispatch(exchange, request, (route) => trySealed(exchange, route, sealed, most))
    return { ...answer, headers: exchange.admission?.headers ?? {} }
  } catch (error) {
    if (!(error instanceof Problem) || !unavailable.has(error.code)) throw error
    throw new Problem('node_unavailable', { retryAfterSeconds: retrySeconds })
  }
}

const clearHeaders = (
  { port }: Exchange,
  { enc, clientModel }: SealedRequest['sealed'],
  { callId, route }: Attempt,
  most: number | null,
) => ({
  'content-type': 'application/octet-stream',
  [encapsulatedKeyHeader]: enc,
  [headers.nodeRequestId]: callId,
  [headers.runtimeId]: route.runtimeId,
  [headers.modelId]: route.modelId,
  [headers.nodeClass]: route.nodeClass,
  [headers.sealedModel]: clientModel,
  [headers.upstreamModel]: route.upstreamModelId,
  ...(most === null ? {} : { [headers.maxTokens]: String(most) }),
  ...(port.timed() ? timedHeader : {}),
})

type Tried = Omit<SealedAnswer, 'headers'> | { readonly failure: AttemptFailure }

async function trySealed(
  exchange: Exchange,
  route: Route,
  sealed: SealedRequest['sealed'],
  most: number | null,
): Promise<Tried> {
  const ended = exchange.ended()
  if (ended !== null) return { failure: ended }
  const { command } = exchange
  const { bytes, enc } = sealed
  const binding = new SealedBinding(enc, bytes)
  exchange.binding = binding
  const attempt = exchange.begin(route, false)
  const transport = wayToNode(exchange, attempt)
  try {
    if (transport === null) return { failure: attempt.failedByCause('node_lost') }
    const response = await transport.fetch(sealedPath + command.operation.path, {
      method: 'POST',
      headers: clearHeaders(exchange, sealed, attempt, most),
      body: bytes,
      signal: attempt.signal,
      // A second time its encapsulated key would be refused.
      once: true,
      isolationKey: command.access.customerId,
    })
    const nonce = response.headers.get(responseNonceHeader)
    const contentType = response.headers.get('content-type') ?? ''
    if (nonce === null) return { failure: await unsealed(attempt, response) }
    if (readHex32(nonce) === null || !typePattern.test(contentType) || !isAnswer(response.status)) {
      response.discard()
      return { failure: attempt.failedByContent('') }
    }
    forgetBytes(exchange, sealed)
    const relay = new SealedRelay({ exchange, attempt, transport, binding, response })
    relay.begin()
    const seconds = response.headers.get('retry-after')
    const retryAfter = seconds !== null && retryPattern.test(seconds) ? seconds : null
    return { status: response.status, nonce, contentType, retryAfter, stream: relay.stream }
  } catch (error) {
    if (error instanceof KeyMismatch) throw error
    return { failure: attempt.failedBy(error) }
  }
}

/** The answer has begun: what may still be asked of the request is its size. */
function forgetBytes(exchange: Exchange, sealed: SealedRequest['sealed']): void {
  exchange.prompt()
  const { model } = exchange.command.body
  const rest: SealedRequest = { model, sealed: { ...sealed, bytes: new Uint8Array() } }
  exchange.command.body = rest
}

/** A node that could not or would not open the request. Its words are told in the gateway's own. */
async function unsealed(attempt: Attempt, response: NodeResponse): Promise<AttemptFailure> {
  const { status } = response
  const text = await errorText(response, attempt.signal)
  const { type } = (foreignJson(text) ?? {}) as { readonly type?: unknown }
  const refused = (problem: Problem) => attempt.failedByRequest(problem)
  if (status === 422 && type === keyMismatchType) {
    attempt.failedByRequest(new Problem('invalid_request'))
    throw new KeyMismatch()
  }
  if (status === 409) return refused(new Problem('envelope_replayed'))
  if (status === 400) {
    return refused(new Problem('invalid_request', { detail: 'The node cannot read this as a sealed request' }))
  }
  // A version before sealed requests.
  if (status === 404) return refused(new Problem('node_unavailable', { detail: 'The node takes no sealed requests' }))
  return attempt.failedByStatus(status, response.headers.get('retry-after'), '')
}
