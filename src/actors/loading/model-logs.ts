import { TypeCompiler } from '@sinclair/typebox/compiler'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { ModelLog, nodeModelsPath } from '../../protocol/wire/nodes/agent.ts'
import { secondMs } from '../../time.ts'
import type { NodeResponse, NodeTransport } from '../../transport/transport.ts'
import type { AuditContext } from '../audit/audit-context.ts'
import { type ModelWishesOptions, routeOn } from './model-wishes.ts'

/** An agent has the lines in its memory. */
const agentTimeoutMs = 10 * secondMs

const checkLog = TypeCompiler.Compile(ModelLog)
const notRead = (detail: string) => new Problem('invalid_state', { detail })
const foreignServer = 'No agent runs the server of this model, so its output cannot be read here'
const staysThere =
  'The owner of the node does not let operators read this log: models.json there does not set logs: true for the model'
const notGiven = () =>
  new Problem('upstream_error', { detail: 'The agent of this node does not answer, or is of a version without logs' })

/** Operators read what a model server has written last, where the owner of its computer lets them (§37). */
export class ModelLogs {
  constructor(private readonly options: Omit<ModelWishesOptions, 'servers'> & { readonly log: Log }) {}

  /**
   * The last lines of its last start, oldest first. Refuses with `node_not_found`, `model_not_found`, `invalid_state` where no agent
   * runs the server or its owner keeps the output there, and `upstream_error`. Nothing of it is kept here.
   */
  async last(audit: AuditContext, nodeId: string, modelId: string, signal: AbortSignal): Promise<readonly string[]> {
    const { db, trail, pool, router, log } = this.options
    const row = await pool.node(nodeId)
    const route = routeOn(router, row.nodeId, modelId)
    const transport = router.transport(row.nodeId)
    if (route.agent === null || transport === null) throw notRead(foreignServer)
    const metadata = { model: route.upstreamModelId }
    await db.transaction((tx) => trail.record(tx, audit, { targetId: row.nodeId, metadata }))
    try {
      return await linesOf(transport, route.upstreamModelId, signal)
    } catch (error) {
      if (error instanceof Problem) throw error
      log.warn('model_log_not_read', { node_id: row.nodeId, failure: failureName(error) })
      throw notGiven()
    }
  }
}

/** Rejects as the transport does, and with a `Problem` where the agent refuses. */
async function linesOf(transport: NodeTransport, id: string, left: AbortSignal): Promise<readonly string[]> {
  const path = `${nodeModelsPath}/${encodeURIComponent(id)}/logs`
  const signal = AbortSignal.any([left, AbortSignal.timeout(agentTimeoutMs)])
  const response = await transport.fetch(path, { method: 'POST', body: '', signal })
  return readLines(response, await response.text(probeBytesMax))
}

function readLines({ status }: NodeResponse, text: string): readonly string[] {
  if (status === 409) throw notRead(staysThere)
  const body = foreignJson(text)
  if (status !== 200 || !checkLog.Check(body)) throw notGiven()
  return body.lines
}
