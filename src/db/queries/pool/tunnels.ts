import { and, eq, gt, inArray, lt, sql } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { tunnelOwners } from '../../schema/tunnels.ts'

export interface TunnelOwnerRow {
  readonly nodeId: NodeId
  readonly replicaId: string
  readonly peerUrl: string | null
  readonly epoch: number
  /** Until the lease runs out, by the database's clock. */
  readonly leftMs: number
}

const leaseUntil = (leaseMs: number) => sql`now() + ${leaseMs} * interval '1 ms'`

/** A tunnel has opened: the newest takes over whatever an older one held. Resolves with the epoch. */
export async function claimTunnel(
  db: Database,
  owner: { readonly nodeId: NodeId; readonly replicaId: string; readonly peerUrl: string | null },
  leaseMs: number,
): Promise<number> {
  const values = { ...owner, leaseUntil: leaseUntil(leaseMs) }
  const set = {
    replicaId: owner.replicaId,
    peerUrl: owner.peerUrl,
    epoch: sql`nextval('tunnel_epochs')`,
    leaseUntil: leaseUntil(leaseMs),
  }
  const [row] = await db
    .insert(tunnelOwners)
    .values(values)
    .onConflictDoUpdate({ target: tunnelOwners.nodeId, set })
    .returning({ epoch: tunnelOwners.epoch })
  if (row === undefined) throw new Error('a claim returned no row')
  return row.epoch
}

/** Renews the leases of these nodes; what another gateway has taken over since is not touched. */
export async function renewTunnels(
  db: Database,
  replicaId: string,
  nodeIds: readonly NodeId[],
  leaseMs: number,
): Promise<void> {
  if (nodeIds.length === 0) return
  await db
    .update(tunnelOwners)
    .set({ leaseUntil: leaseUntil(leaseMs) })
    .where(and(eq(tunnelOwners.replicaId, replicaId), inArray(tunnelOwners.nodeId, [...nodeIds])))
}

/** The tunnel with this epoch has ended; a newer one's row stays. */
export async function releaseTunnel(db: Database, nodeId: NodeId, epoch: number): Promise<void> {
  await db.delete(tunnelOwners).where(and(eq(tunnelOwners.nodeId, nodeId), eq(tunnelOwners.epoch, epoch)))
}

export async function tunnelOwnerRows(db: Database): Promise<readonly TunnelOwnerRow[]> {
  return db
    .select({
      nodeId: tunnelOwners.nodeId,
      replicaId: tunnelOwners.replicaId,
      peerUrl: tunnelOwners.peerUrl,
      epoch: tunnelOwners.epoch,
      leftMs: sql<number>`(extract(epoch from ${tunnelOwners.leaseUntil} - now()) * 1000)::float8`,
    })
    .from(tunnelOwners)
    .where(gt(tunnelOwners.leaseUntil, sql`now()`))
}

/** Rows of gateways that ended without a word. */
export async function dropOldTunnelOwners(db: Database): Promise<void> {
  await db.delete(tunnelOwners).where(lt(tunnelOwners.leaseUntil, sql`now() - interval '5 minutes'`))
}
