import type { Database } from '../../db/client.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { failureName, type Log } from '../../log.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { probeBytesMax } from '../../polling/runtime-probe.ts'
import { canBeTold, type ModelWishName, tellRuntime } from '../../polling/tell-runtime.ts'
import { nodeModelsPath } from '../../protocol/wire/nodes/agent.ts'
import { secondMs } from '../../time.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import type { PoolReads } from './pool-admin.ts'
import type { PoolRouter } from './pool-router.ts'

export interface ModelWishesOptions {
  readonly db: Database
  readonly log: Log
  readonly trail: AuditTrail
  readonly pool: PoolReads
  readonly router: PoolRouter
}

/** How long the answer waits for a server's refusal. A load goes on behind it. */
const refusalWaitMs = 2 * secondMs
/** An agent only takes note of a wish. */
const agentTimeoutMs = 10 * secondMs

/** Operators bring models into the memory of nodes, and let them go (§30). */
export class ModelWishes {
  constructor(private readonly options: ModelWishesOptions) {}

  /**
   * Resolves when the node has been told; a load may still be under way. Refuses with `node_not_found`, `model_not_found`
   * for a model that the node does not name, `invalid_state` where nobody can tell its server, and `upstream_error`.
   */
  async tell(audit: AuditContext, nodeId: string, wish: ModelWishName, modelId: string): Promise<void> {
    const { db, trail, pool, router, log } = this.options
    const row = await pool.node(nodeId)
    const { routes, latest } = router.table()
    const here = ({ nodeId: at }: Route) => at === row.nodeId
    const named = ({ modelNames, upstreamModelId }: Route) =>
      upstreamModelId === modelId || modelNames.includes(modelId)
    const route = routes.find((each) => here(each) && named(each)) ?? latest.get(modelId)?.find(here)
    if (route === undefined) throw new Problem('model_not_found', { param: 'model' })
    const transport = router.transport(row.nodeId)
    if (transport === null || (row.kind === 'runtime' && !canBeTold(route.runtimeKind))) {
      throw new Problem('invalid_state', { detail: 'The server of this model cannot be told' })
    }
    const model = { id: route.upstreamModelId, modality: route.modality }
    // The event stands before the deed: nothing is told without one.
    await db.transaction((tx) => trail.record(tx, audit, { targetId: row.nodeId, metadata: { model: model.id } }))
    const telling =
      row.kind === 'agent'
        ? tellAgent(transport, wish, model.id)
        : tellRuntime(transport, route.runtimeKind, wish, model)
    const told = telling.catch((error: unknown) => {
      log.warn('model_not_told', { node_id: row.nodeId, wish, failure: failureName(error) })
      return false
    })
    // A load that takes its time was not refused.
    const done = await within(refusalWaitMs, told).catch(() => true)
    void told.then(() => router.pollNow(row.nodeId))
    if (!done) throw new Problem('upstream_error', { detail: 'The server of this model would not' })
  }
}

async function tellAgent(transport: NodeTransport, wish: ModelWishName, id: string): Promise<boolean> {
  const path = `${nodeModelsPath}/${encodeURIComponent(id)}/${wish}`
  const response = await transport.fetch(path, {
    method: 'POST',
    body: '',
    signal: AbortSignal.timeout(agentTimeoutMs),
  })
  await response.text(probeBytesMax)
  return response.status === 202
}
