import { and, eq, inArray, ne } from 'drizzle-orm'
import type { CustomerId, NodeId } from '../../../ids.ts'
import type { SealedKey } from '../../../protocol/wire/nodes/sealed-key.ts'
import type { Database } from '../../client.ts'
import { nodes } from '../../schema/pool.ts'

export interface SealedNodeRow {
  readonly nodeId: NodeId
  /** null: a node without an agent, to which nothing can be sealed. */
  readonly identityKey: Buffer | null
  readonly sealedKeys: readonly SealedKey[]
}

/** Those of the nodes that are this customer's and not revoked, in no order. */
export async function sealedNodesOf(
  db: Database,
  customerId: CustomerId,
  nodeIds: readonly NodeId[],
): Promise<readonly SealedNodeRow[]> {
  if (nodeIds.length === 0) return []
  const rows = await db
    .select({ nodeId: nodes.nodeId, identityKey: nodes.identityKey, sealedKeys: nodes.sealedKeys })
    .from(nodes)
    .where(and(inArray(nodes.nodeId, [...nodeIds]), eq(nodes.customerId, customerId), ne(nodes.adminState, 'revoked')))
  return rows.map((row) => ({ ...row, sealedKeys: row.sealedKeys ?? [] }))
}
