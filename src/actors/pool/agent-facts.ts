import type { Database } from '../../db/client.ts'
import { type NodeRow, saveSealedKeys, saveTransportKeys } from '../../db/queries/pool/pool.ts'
import { failureName, type Log } from '../../log.ts'
import type { AgentFacts } from '../../polling/node-watch.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { isOwnSealedKey, isOwnTransportKey } from '../agents/transport-keys.ts'
import type { PoolNode } from './nodes/pool-node.ts'

/** Those of the published keys that the node itself signed; null: they are the kept ones. Signatures are work, so only changes are checked. */
function changedKeys<K>(published: readonly K[], kept: readonly K[], isOwn: (key: K) => boolean): readonly K[] | null {
  const before = canonicalJson(kept)
  if (canonicalJson(published) === before) return null
  const own = published.filter(isOwn)
  return canonicalJson(own) === before ? null : own
}

/** Takes over what an agent publishes, and stores its keys where they are others than its row has. */
export function takeAgentFacts(node: PoolNode, facts: AgentFacts, { db, log }: { db: Database; log: Log }): void {
  const { row, identity } = node
  const { nodeId } = row
  node.hardware = facts.hardware
  if (identity === null) return
  const stored = (saving: Promise<void>, keys: Pick<NodeRow, 'transportKeys'> | Pick<NodeRow, 'sealedKeys'>) => {
    saving.then(
      () => {
        node.row = { ...node.row, ...keys }
      },
      (error: unknown) => {
        log.warn('transport_keys_not_stored', { node_id: nodeId, failure: failureName(error) })
      },
    )
  }
  const transportKeys = changedKeys(facts.transportKeys, row.transportKeys ?? [], (key) =>
    isOwnTransportKey(key, identity),
  )
  if (transportKeys !== null)
    stored(saveTransportKeys(db, nodeId, transportKeys), { transportKeys: [...transportKeys] })
  const sealedKeys = changedKeys(facts.sealedKeys, row.sealedKeys ?? [], (key) => isOwnSealedKey(key, identity))
  if (sealedKeys !== null) stored(saveSealedKeys(db, nodeId, sealedKeys), { sealedKeys: [...sealedKeys] })
}
