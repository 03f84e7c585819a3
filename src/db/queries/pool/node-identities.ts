import { and, eq, lt, ne, sql } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { nodeIdentities, nodeNonces, nodes } from '../../schema/pool.ts'

/** 32 bytes; null for a node that is unknown, revoked or has no agent. */
export async function nodeIdentityKey(db: Database, nodeId: string): Promise<Buffer | null> {
  const [row] = await db
    .select({ key: nodes.identityKey })
    .from(nodes)
    .where(and(eq(nodes.nodeId, nodeId as NodeId), ne(nodes.adminState, 'revoked')))
  return row?.key ?? null
}

/** False when the key was ever enrolled before, whatever became of that node. */
export async function addIdentity(tx: Database, publicKey: Buffer, nodeId: NodeId): Promise<boolean> {
  const added = await tx
    .insert(nodeIdentities)
    .values({ publicKey, nodeId })
    .onConflictDoNothing()
    .returning({ nodeId: nodeIdentities.nodeId })
  return added.length > 0
}

/** False when this node has used the nonce before. */
export async function takeNonce(db: Database, nodeId: string, nonceHash: Buffer, expiresAt: Date): Promise<boolean> {
  const taken = await db
    .insert(nodeNonces)
    .values({ nodeId: nodeId as NodeId, nonceHash, expiresAt })
    .onConflictDoNothing()
    .returning({ nodeId: nodeNonces.nodeId })
  return taken.length > 0
}

export async function dropOldNonces(db: Database): Promise<void> {
  await db.delete(nodeNonces).where(lt(nodeNonces.expiresAt, sql`now()`))
}

/** Whether the key was ever enrolled, whatever became of that node. */
export async function isKnownIdentity(db: Database, publicKey: Buffer): Promise<boolean> {
  const [row] = await db
    .select({ nodeId: nodeIdentities.nodeId })
    .from(nodeIdentities)
    .where(eq(nodeIdentities.publicKey, publicKey))
  return row !== undefined
}
