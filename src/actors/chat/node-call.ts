import { headers, timedReceiptVersion } from '../../brand.ts'
import { noConfidences } from '../../confidences.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { ReceiptBinding } from '../../protocol/receipts/binding.ts'
import { errorText } from '../../transport/error-text.ts'
import { type NodeRequest, type NodeResponse, type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { Attempt, AttemptFailure } from '../relay/attempt.ts'
import type { Exchange } from './exchange.ts'

/** For its own receipt v2; an agent of a version before does not know them, and signs v1. */
const bindingHeaders = ({ clientNonce, saltText, requestCommitment }: ReceiptBinding) => ({
  [headers.clientNonce]: clientNonce,
  [headers.receiptSalt]: saltText,
  [headers.requestCommitment]: requestCommitment,
})

/** For its own receipt v3; an agent of a version before does not know it, and signs v1 or v2. */
export const timedHeader = { [headers.receiptVersion]: timedReceiptVersion }

/** An agent has several runtimes, and its receipt names the requested model (§14). */
function agentHeaders(
  { port, command, binding }: Exchange,
  { callId, route }: Attempt,
): Readonly<Record<string, string>> {
  const jobId = command.body.svc?.job_id
  return {
    'content-type': 'application/json',
    [headers.nodeRequestId]: callId,
    [headers.runtimeId]: route.runtimeId,
    [headers.modelId]: route.modelId,
    [headers.nodeClass]: route.nodeClass,
    ...(jobId === undefined ? {} : { [headers.jobId]: jobId }),
    ...(binding === null ? {} : bindingHeaders(binding)),
    ...(port.timed() ? timedHeader : {}),
  }
}

/** vLLM and SGLang take the rank that a request is for from the same header. */
const rankHeader = 'x-data-parallel-rank'
const serverHeaders = (rank: number | null, sent: Readonly<Record<string, string>>) =>
  rank === null ? sent : { ...sent, [rankHeader]: String(rank) }

/** Of a status that may be the request's own fault the body says why; of others it is not waited for. */
export async function failedAnswer(attempt: Attempt, response: NodeResponse): Promise<AttemptFailure> {
  const { status } = response
  const retryAfter = response.headers.get('retry-after')
  if (!attempt.readsWhy(status)) {
    response.discard()
    return attempt.failedByStatus(status, retryAfter, '')
  }
  const body = await errorText(response, attempt.signal)
  return attempt.cause === null
    ? attempt.failedByStatus(status, retryAfter, body)
    : attempt.failedByCause(attempt.cause)
}

/**
 * Reserves the money for a call on a paid route, null: at once. The call holds its slot meanwhile, so that no other request is placed
 * there. If the call is not sent (resolves with the reason, rejects, or throws), the slot is freed and the call does not count.
 */
export function afford(exchange: Exchange, attempt: Attempt): Promise<AttemptFailure | null> | null {
  attempt.unsent = true
  try {
    const afforded = exchange.afford(attempt.route)
    if (afforded !== null) return whenAfforded(exchange, attempt, afforded)
  } catch (error) {
    exchange.withdraw()
    throw error
  }
  attempt.unsent = false
  return null
}

async function whenAfforded(
  exchange: Exchange,
  attempt: Attempt,
  afforded: Promise<void>,
): Promise<AttemptFailure | null> {
  try {
    await afforded
  } catch (error) {
    exchange.withdraw()
    throw error
  }
  const ended = exchange.ended()
  if (ended !== null) exchange.withdraw()
  attempt.unsent = false
  attempt.startedMs = performance.now()
  return ended
}

/** Sends one try to its node. Only a 200 is an answer, see `failedAnswer`. Rejects with what `Attempt.failedBy` takes. */
export function callNode(exchange: Exchange, attempt: Attempt, body: UpstreamBody): Promise<NodeResponse> {
  const transport = wayToNode(exchange, attempt)
  return transport === null
    ? Promise.reject(new TransportError('aborted'))
    : transport.fetch(body.path, nodeRequest(exchange, attempt, body))
}

/**
 * The transport of the call, with the confidential headers for the node. null if the node has left; then the call is
 * aborted.
 */
export function wayToNode({ port }: Exchange, attempt: Attempt): NodeTransport | null {
  const transport = port.router.transport(attempt.route.nodeId)
  if (transport === null) attempt.abort('node_lost')
  else attempt.confided = transport.confided ?? noConfidences
  return transport
}

/** One try as its node gets it. */
export function nodeRequest(exchange: Exchange, attempt: Attempt, body: UpstreamBody): NodeRequest {
  const { command } = exchange
  const { route, callId, signal } = attempt
  const { form } = body
  const contentType = form?.contentType ?? 'application/json'
  return {
    method: 'POST',
    headers:
      route.agent !== null
        ? agentHeaders(exchange, attempt)
        : serverHeaders(route.engineRank, { 'content-type': contentType, [headers.nodeRequestId]: callId }),
    ...(form === undefined
      ? { body: body.forModel(route.upstreamModelId, route.askedWith) }
      : { stream: form.open(route.upstreamModelId) }),
    signal,
    once: exchange.sentOnce || form !== undefined,
    isolationKey: command.access.customerId,
  }
}
