import type { Database } from '../db/client.ts'
import { ensureProfiles, ensureRuntime } from '../db/queries/pool.ts'
import type { RuntimeStatus } from '../runtimes/runtime.ts'
import { failureName, type Log } from './log.ts'
import type { PoolNode } from './pool-node.ts'
import type { Profile } from './routing-table.ts'

/**
 * Gives a node's new models their ids before anybody sees them: gateways on one database agree on them. With the
 * database away the models that are known already go on; the others wait for the next poll. Never rejects.
 */
export async function introduce(
  db: Database,
  log: Log,
  node: PoolNode,
  status: RuntimeStatus,
): Promise<readonly Profile[]> {
  try {
    if (node.runtime === null) node.knowRuntime(await ensureRuntime(db, node.row.nodeId, ''))
    const fresh = node.unknownModels(status)
    if (node.runtime === null || fresh.length === 0) return []
    const rows = await ensureProfiles(db, node.runtime.runtimeId, fresh)
    return rows.map((row) => node.knowProfile(row))
  } catch (error) {
    log.warn('profiles_not_stored', { node_id: node.row.nodeId, failure: failureName(error) })
    return []
  }
}
