import { TypeCompiler } from '@sinclair/typebox/compiler'
import type { Database } from '../../db/client.ts'
import { Problem } from '../../errors.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import {
  type AgentPullOrder,
  AgentPulls,
  nodePullsPath,
  Pull,
  type PullOrder,
  pullsBytesMax,
  pullsOpenMax,
} from '../../protocol/wire/nodes/pulls.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { AuditContext, AuditTrail, Deed } from '../audit/audit-context.ts'
import { type AgentRequest, type AgentWays, agentOf, ask, noAgent, notUnderstood, refused } from './agent-requests.ts'

export interface NodePullsOptions extends AgentWays {
  readonly db: Database
  readonly trail: AuditTrail
}

const checkPull = TypeCompiler.Compile(Pull)
const checkPulls = TypeCompiler.Compile(AgentPulls)
type Check<T> = { Check(value: unknown): value is T }

const notAllowed = () =>
  refused(
    `The owner of this computer lets its agent fetch nothing from there (--pull-from), it has no models.json, or ${pullsOpenMax} pulls wait`,
  )
const noModel = () => new Problem('invalid_request', { param: 'ref', detail: 'The reference names no model' })

/** Operators have agents fetch models (§39). What becomes of that the agent alone knows, and it is asked each time. */
export class NodePulls {
  constructor(private readonly options: NodePullsOptions) {}

  /** Resolves when the agent has taken note of it. Refuses with `node_not_found`, `invalid_state`, `invalid_request`, `upstream_error`. */
  async pull(audit: AuditContext, nodeId: string, order: PullOrder): Promise<Pull> {
    const { transport } = await agentOf(this.options, nodeId)
    await this.record(audit, nodeId, { model: order.ref })
    return orderPull(transport, order, noModel)
  }

  /** Newest first. Refuses with `node_not_found`, `invalid_state`, `upstream_error`. */
  async list(nodeId: string): Promise<readonly Pull[]> {
    const { transport } = await agentOf(this.options, nodeId)
    return (await asked<AgentPulls>(transport, { method: 'GET', path: nodePullsPath }, checkPulls)).pulls
  }

  /** Repeating it is no error. Refuses as `list` does, and with `pull_not_found`. */
  async cancel(audit: AuditContext, nodeId: string, pullId: string): Promise<Pull> {
    const { transport } = await agentOf(this.options, nodeId)
    await this.record(audit, nodeId)
    const path = `${nodePullsPath}/${encodeURIComponent(pullId)}/cancel`
    return asked(transport, { method: 'POST', path }, checkPull, { 404: () => new Problem('pull_not_found') })
  }

  /** The event stands before the deed. */
  private async record(audit: AuditContext, nodeId: string, metadata: Deed['metadata'] = {}): Promise<void> {
    const { db, trail } = this.options
    await db.transaction((tx) => trail.record(tx, audit, { targetId: nodeId, metadata }))
  }
}

/** `malformed`: what it means that the agent does not understand the order. */
export const orderPull = (transport: NodeTransport, order: AgentPullOrder, malformed: () => Problem): Promise<Pull> =>
  asked(transport, { method: 'POST', path: nodePullsPath, body: order }, checkPull, { 400: malformed })

/** `meant`: what a status means. */
async function asked<T>(
  transport: NodeTransport,
  question: AgentRequest,
  check: Check<T>,
  meant: Readonly<Record<number, () => Problem>> = {},
): Promise<T> {
  const { status, text } = await ask(transport, question, pullsBytesMax)
  const refusal = { 404: noAgent, 409: notAllowed, ...meant }[status]
  if (refusal !== undefined) throw refusal()
  const value = status < 300 ? foreignJson(text) : undefined
  if (!check.Check(value)) throw notUnderstood()
  return value
}
