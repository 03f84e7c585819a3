import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Database } from '../../db/client.ts'
import { Problem } from '../../errors.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import {
  AgentPulls,
  nodePullsPath,
  Pull,
  type PullOrder,
  pullsBytesMax,
  pullsOpenMax,
} from '../../protocol/wire/nodes/pulls.ts'
import { secondMs } from '../../time.ts'
import { type NodeTransport, TransportError } from '../../transport/transport.ts'
import type { AuditContext, AuditTrail, Deed } from '../audit/audit-context.ts'
import type { PoolReads } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'

export interface NodePullsOptions {
  readonly db: Database
  readonly trail: AuditTrail
  readonly pool: PoolReads
  readonly router: Pick<PoolRouter, 'transport' | 'pooled'>
}

/** An agent only takes note of an order, or says what it has noted, ms. */
const agentMs = 10 * secondMs

const checkPull = TypeCompiler.Compile(Pull)
const checkPulls = TypeCompiler.Compile(AgentPulls)
type Check<T> = { Check(value: unknown): value is T }

const refused = (detail: string) => new Problem('invalid_state', { detail })
const noAgent = () => refused('This node has no agent of a version that fetches models')
const notAllowed = () =>
  refused(
    `The owner of this computer lets its agent fetch nothing from there (--pull-from), it has no models.json, or ${pullsOpenMax} pulls wait`,
  )

interface Asked {
  readonly method: 'GET' | 'POST'
  readonly path: string
  readonly body?: object
}

/** Operators have agents fetch models (§39). What becomes of that the agent alone knows, and it is asked each time. */
export class NodePulls {
  constructor(private readonly options: NodePullsOptions) {}

  /** Resolves when the agent has taken note of it. Refuses with `node_not_found`, `invalid_state`, `invalid_request`, `upstream_error`. */
  async pull(audit: AuditContext, nodeId: string, order: PullOrder): Promise<Pull> {
    const transport = await this.agentOf(nodeId)
    await this.record(audit, nodeId, { model: order.ref })
    return ask(transport, { method: 'POST', path: nodePullsPath, body: order }, checkPull)
  }

  /** Newest first. Refuses with `node_not_found`, `invalid_state`, `upstream_error`. */
  async list(nodeId: string): Promise<readonly Pull[]> {
    const transport = await this.agentOf(nodeId)
    return (await ask<AgentPulls>(transport, { method: 'GET', path: nodePullsPath }, checkPulls)).pulls
  }

  /** Repeating it is no error. Refuses as `list` does, and with `pull_not_found`. */
  async cancel(audit: AuditContext, nodeId: string, pullId: string): Promise<Pull> {
    const transport = await this.agentOf(nodeId)
    await this.record(audit, nodeId)
    const path = `${nodePullsPath}/${encodeURIComponent(pullId)}/cancel`
    return ask(transport, { method: 'POST', path }, checkPull, () => new Problem('pull_not_found'))
  }

  /** The event stands before the deed. */
  private async record(audit: AuditContext, nodeId: string, metadata: Deed['metadata'] = {}): Promise<void> {
    const { db, trail } = this.options
    await db.transaction((tx) => trail.record(tx, audit, { targetId: nodeId, metadata }))
  }

  private async agentOf(nodeId: string): Promise<NodeTransport> {
    const { pool, router } = this.options
    const row = await pool.node(nodeId)
    if (row.kind !== 'agent') throw noAgent()
    if (router.pooled(row.nodeId) === null) throw refused('An operator has revoked this node')
    const transport = router.transport(row.nodeId)
    if (transport === null) throw refused('The node cannot be reached')
    return transport
  }
}

/** `missing`: what 404 means. */
async function ask<T>(transport: NodeTransport, asked: Asked, check: Check<T>, missing = noAgent): Promise<T> {
  const { method, path, body } = asked
  const headers = { 'content-type': 'application/json' }
  const json = body === undefined ? (method === 'POST' ? { body: '' } : {}) : { headers, body: JSON.stringify(body) }
  try {
    const response = await transport.fetch(path, { method, ...json, signal: AbortSignal.timeout(agentMs) })
    const text = await response.text(pullsBytesMax)
    if (response.status === 404) throw missing()
    if (response.status === 409) throw notAllowed()
    if (response.status === 400)
      throw new Problem('invalid_request', { param: 'ref', detail: 'The reference names no model' })
    const value = response.status < 300 ? foreignJson(text) : undefined
    if (check.Check(value)) return value
  } catch (error) {
    if (!(error instanceof TransportError)) throw error
    throw new Problem('upstream_error', { detail: 'The node did not answer' })
  }
  throw new Problem('upstream_error', { detail: 'The node’s answer was not understood' })
}
