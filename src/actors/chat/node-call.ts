import { headers } from '../../brand.ts'
import { saysWhy } from '../../protocol/chat/node-refusal.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { errorText } from '../../transport/error-text.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import type { Attempt, AttemptFailure } from './attempt.ts'
import type { Exchange } from './exchange.ts'

/** An agent has several runtimes, and says in its receipt what the caller asked for (§14). */
function agentHeaders({ command }: Exchange, { callId, route }: Attempt): Readonly<Record<string, string>> {
  const jobId = command.body.svc?.job_id
  return {
    'content-type': 'application/json',
    [headers.nodeRequestId]: callId,
    [headers.runtimeId]: route.runtimeId,
    [headers.modelId]: route.modelId,
    [headers.nodeClass]: route.nodeClass,
    ...(jobId === undefined ? {} : { [headers.jobId]: jobId }),
  }
}

/** Of a status that may be the request's own fault the body says why; of others it is not waited for. */
async function failedAnswer(attempt: Attempt, response: NodeResponse): Promise<AttemptFailure> {
  const { status } = response
  const retryAfter = response.headers.get('retry-after')
  if (!saysWhy(status)) {
    response.discard()
    return attempt.failedByStatus(status, retryAfter, '')
  }
  const body = await errorText(response, attempt.signal)
  return attempt.cause === null
    ? attempt.failedByStatus(status, retryAfter, body)
    : attempt.failedByCause(attempt.cause)
}

/** Sends one try to its node; anything but a 200 is a failure, and its slot is then free again. */
export async function callNode(
  exchange: Exchange,
  attempt: Attempt,
  body: UpstreamBody,
): Promise<NodeResponse | AttemptFailure> {
  const { port, command } = exchange
  const transport = port.router.transport(attempt.route.nodeId)
  if (transport === null) return attempt.failedByCause('node_lost')
  try {
    const response = await transport.fetch(body.path, {
      method: 'POST',
      headers:
        attempt.route.agent !== null
          ? agentHeaders(exchange, attempt)
          : { 'content-type': 'application/json', [headers.nodeRequestId]: attempt.callId },
      body: body.forModel(attempt.route.upstreamModelId),
      signal: attempt.signal,
      once: exchange.sentOnce,
      isolationKey: command.access.customerId,
    })
    if (response.status === 200) return response
    return await failedAnswer(attempt, response)
  } catch (error) {
    return attempt.failedBy(error)
  }
}

export const isFailure = (answer: NodeResponse | AttemptFailure): answer is AttemptFailure => 'failover' in answer
