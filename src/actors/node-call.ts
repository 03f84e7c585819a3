import { headers } from '../brand.ts'
import type { UpstreamBody } from '../protocol/upstream-request.ts'
import type { NodeResponse } from '../transport/transport.ts'
import type { Attempt, AttemptFailure } from './attempt.ts'
import type { Exchange } from './exchange.ts'

const chatPath = '/v1/chat/completions'

/** An agent has several runtimes, and says in its receipt what the caller asked for (decisions §14). */
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

/** Sends one try to its node; anything but a 200 is a failure, and its slot is then free again. */
export async function callNode(
  exchange: Exchange,
  attempt: Attempt,
  body: UpstreamBody,
): Promise<NodeResponse | AttemptFailure> {
  const { port, command } = exchange
  const transport = port.router.transport(attempt.route.nodeId)
  if (transport === null) return attempt.failedByCause('node_lost')
  if (command.signal.aborted) attempt.abort('client_gone')
  try {
    const response = await transport.fetch(chatPath, {
      method: 'POST',
      headers:
        attempt.route.agent !== null
          ? agentHeaders(exchange, attempt)
          : { 'content-type': 'application/json', [headers.nodeRequestId]: attempt.callId },
      body: body.forModel(attempt.route.upstreamModelId),
      signal: attempt.signal,
      once: exchange.sentOnce,
    })
    if (response.status === 200) return response
    response.discard()
    return attempt.failedByStatus(response.status, response.headers.get('retry-after'))
  } catch (error) {
    return attempt.failedBy(error)
  }
}

export const isFailure = (answer: NodeResponse | AttemptFailure): answer is AttemptFailure => 'failover' in answer
