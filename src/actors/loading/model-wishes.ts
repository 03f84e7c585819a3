import type { Database } from '../../db/client.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { secondMs } from '../../time.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import type { PoolReads } from '../pool/pool-admin.ts'
import type { PoolRouter } from '../pool/pool-router.ts'
import type { CommandOutcome, ServerCommands } from './server-commands.ts'

export interface ModelWishesOptions {
  readonly db: Database
  readonly trail: AuditTrail
  readonly pool: PoolReads
  readonly router: PoolRouter
  readonly servers: ServerCommands
}

/** How long the answer waits for a server's refusal. A load goes on behind it. */
const refusalWaitMs = 2 * secondMs

export const notControllable = () => new Problem('invalid_state', { detail: 'The server of this model cannot be told' })
export const wouldNot = () => new Problem('upstream_error', { detail: 'The server of this model would not' })

/** The route of a model on a node, by the node's name of it or a client's. Throws `model_not_found`. */
export function routeOn(router: PoolRouter, nodeId: string, modelId: string): Route {
  const { routes, latest } = router.table()
  const here = (route: Route) => route.nodeId === nodeId
  const named = ({ modelNames, upstreamModelId }: Route) => upstreamModelId === modelId || modelNames.includes(modelId)
  const route = routes.find((each) => here(each) && named(each)) ?? latest.get(modelId)?.find(here)
  if (route === undefined) throw new Problem('model_not_found', { param: 'model' })
  return route
}

/** Operators bring models into the memory of nodes, and let them go (§30). */
export class ModelWishes {
  constructor(private readonly options: ModelWishesOptions) {}

  /**
   * Resolves when the node has been told; a load may still be under way. Refuses with `node_not_found`, `model_not_found`
   * for a model that the node does not name, `invalid_state` where its server cannot be told, and `upstream_error`.
   */
  async tell(audit: AuditContext, nodeId: string, wish: ModelWishName, modelId: string): Promise<void> {
    const { db, trail, pool, router, servers } = this.options
    const row = await pool.node(nodeId)
    const route = routeOn(router, row.nodeId, modelId)
    if (!servers.canTell(route)) throw notControllable()
    // The event stands before the deed: nothing is told without one.
    const metadata = { model: route.upstreamModelId }
    await db.transaction((tx) => trail.record(tx, audit, { targetId: row.nodeId, metadata }))
    // A load that takes its time was not refused.
    const telling = servers.tell(route, wish)
    void telling.then(() => servers.look(route, wish))
    const outcome = await within(refusalWaitMs, telling).catch((): CommandOutcome => 'done')
    if (outcome === 'untellable') throw notControllable()
    if (outcome === 'refused') throw wouldNot()
  }
}
