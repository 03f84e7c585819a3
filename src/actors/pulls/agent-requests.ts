import { Problem } from '../../errors.ts'
import { secondMs } from '../../time.ts'
import { type NodeResponse, type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { NodeRecord, PoolReads } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'

export interface AgentWays {
  readonly pool: PoolReads
  readonly router: Pick<PoolRouter, 'transport' | 'pooled'>
}

export interface AskedAgent {
  readonly row: NodeRecord
  readonly transport: NodeTransport
}

/** An agent only takes note of an order, or says what it knows, ms. */
const agentMs = 10 * secondMs

export const refused = (detail: string) => new Problem('invalid_state', { detail })
export const noAgent = () => refused('This node has no agent of a version that moves models')
export const notUnderstood = () => new Problem('upstream_error', { detail: 'The node’s answer was not understood' })
const silent = () => new Problem('upstream_error', { detail: 'The node did not answer' })

/** Refuses with `node_not_found` and `invalid_state`. */
export async function agentOf({ pool, router }: AgentWays, nodeId: string): Promise<AskedAgent> {
  const row = await pool.node(nodeId)
  if (row.kind !== 'agent') throw noAgent()
  if (router.pooled(row.nodeId) === null) throw refused('An operator has revoked this node')
  const transport = router.transport(row.nodeId)
  if (transport === null) throw refused('The node cannot be reached')
  return { row, transport }
}

export interface AgentRequest {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: object
}

/** `signal`: of an answer that may take as long as it does. Refuses with `upstream_error`. */
export async function send(
  transport: NodeTransport,
  { method, path, body }: AgentRequest,
  signal: AbortSignal,
): Promise<NodeResponse> {
  const headers = { 'content-type': 'application/json' }
  const json = body === undefined ? (method === 'POST' ? { body: '' } : {}) : { headers, body: JSON.stringify(body) }
  try {
    return await transport.fetch(path, { method, ...json, signal })
  } catch (error) {
    throw error instanceof TransportError ? silent() : error
  }
}

/** Its status and its whole answer. Refuses with `upstream_error`. */
export async function ask(
  transport: NodeTransport,
  asked: AgentRequest,
  bytesMax: number,
): Promise<{ readonly status: number; readonly text: string }> {
  const response = await send(transport, asked, AbortSignal.timeout(agentMs))
  try {
    return { status: response.status, text: await response.text(bytesMax) }
  } catch (error) {
    throw error instanceof TransportError ? silent() : error
  }
}
