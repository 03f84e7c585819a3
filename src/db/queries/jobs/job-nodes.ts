import { and, eq, ne } from 'drizzle-orm'
import type { CustomerId, NodeId, RuntimeId } from '../../../ids.ts'
import type { TransportKey } from '../../../protocol/wire/nodes/agent.ts'
import type { Database } from '../../client.ts'
import { modelProfiles, nodes, runtimes } from '../../schema/pool.ts'

export interface NodeKeyRow {
  readonly nodeId: NodeId
  readonly nodeClass: string
  /** null: a node without an agent, which takes no private jobs. */
  readonly identityKey: Buffer | null
  readonly transportKeys: readonly TransportKey[]
}

/** A node of this customer that is not revoked. */
export async function ownNodeKeys(db: Database, customerId: CustomerId, nodeId: string): Promise<NodeKeyRow | null> {
  const own = and(eq(nodes.nodeId, nodeId as NodeId), eq(nodes.customerId, customerId), ne(nodes.adminState, 'revoked'))
  const [row] = await db
    .select({
      nodeId: nodes.nodeId,
      nodeClass: nodes.nodeClass,
      identityKey: nodes.identityKey,
      transportKeys: nodes.transportKeys,
    })
    .from(nodes)
    .where(own)
  return row === undefined ? null : { ...row, transportKeys: row.transportKeys ?? [] }
}

/** The runtime of the node that was seen to have one of these names of a model. */
export async function runtimeWith(
  db: Database,
  nodeId: NodeId,
  upstreamModelIds: readonly string[],
): Promise<{ readonly runtimeId: RuntimeId; readonly upstreamModelId: string } | null> {
  const rows = await db
    .select({ runtimeId: runtimes.runtimeId, upstreamModelId: modelProfiles.upstreamModelId })
    .from(modelProfiles)
    .innerJoin(runtimes, eq(runtimes.runtimeId, modelProfiles.runtimeId))
    .where(eq(runtimes.nodeId, nodeId))
  for (const wanted of upstreamModelIds) {
    const found = rows.find(({ upstreamModelId }) => upstreamModelId === wanted)
    if (found !== undefined) return found
  }
  return null
}

/** What a receipt of the node must say and be signed by. */
export async function receiptFacts(
  db: Database,
  nodeId: NodeId,
): Promise<{ readonly nodeClass: string; readonly identityKey: Buffer | null } | null> {
  const [row] = await db
    .select({ nodeClass: nodes.nodeClass, identityKey: nodes.identityKey })
    .from(nodes)
    .where(eq(nodes.nodeId, nodeId))
  return row ?? null
}
