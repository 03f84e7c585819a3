import type { Database } from '../../db/client.ts'
import { ensureProfiles, ensureRuntime } from '../../db/queries/pool/pool.ts'
import { failureName, type Log } from '../../log.ts'
import type { RuntimeReport } from '../../polling/node-watch.ts'
import type { PoolNode } from './nodes/pool-node.ts'
import type { PoolRuntime } from './nodes/pool-runtime.ts'
import type { Profile } from './nodes/routing-table.ts'

/**
 * Gives a node's new runtimes and models their ids before anybody sees them: gateways on one database agree on them.
 * With the database away those that are known already go on; the others wait for the next poll. Never rejects.
 */
export async function introduce(
  db: Database,
  log: Log,
  node: PoolNode,
  reports: readonly RuntimeReport[],
): Promise<readonly Profile[]> {
  const fresh: Profile[] = []
  try {
    for (const { label, status } of reports) {
      const runtime = node.runtimes.get(label) ?? (await introduceRuntime(db, node, label))
      const models = runtime === null ? [] : node.unknownModels(runtime, status)
      if (runtime === null || models.length === 0) continue
      const rows = await ensureProfiles(db, runtime.runtimeId, models)
      for (const row of rows) fresh.push(runtime.knowProfile(row))
    }
  } catch (error) {
    log.warn('profiles_not_stored', { node_id: node.row.nodeId, failure: failureName(error) })
  }
  return fresh
}

/** How many runtimes one node may ever have had, because a hostile one could invent new ones for ever. */
const runtimesPerNodeMax = 256

/** null if the node has too many runtimes, or if the agent claims the runtime id of another node. */
async function introduceRuntime(db: Database, node: PoolNode, label: string): Promise<PoolRuntime | null> {
  if (node.runtimes.size >= runtimesPerNodeMax) return null
  const id = await ensureRuntime(db, node.row.nodeId, label)
  return id === null ? null : node.knowRuntime(id, label)
}
