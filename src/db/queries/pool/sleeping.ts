import { and, eq, isNotNull, isNull, lte, ne, sql } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { nodes, nodeWakes, type StoredSleep, type StoredVain } from '../../schema/pool.ts'
import type { NodeRow } from './pool.ts'

export type { StoredSleep, StoredVain } from '../../schema/pool.ts'
export type WakeFacts = Partial<Pick<NodeRow, 'macs' | 'networks' | 'wakeSecretSealed'>>

const live = (nodeId: NodeId) => and(eq(nodes.nodeId, nodeId), ne(nodes.adminState, 'revoked'))

/** How the node is woken, by its agent's word. */
export async function saveWakeFacts(db: Database, nodeId: NodeId, facts: WakeFacts): Promise<void> {
  await db.update(nodes).set(facts).where(live(nodeId))
  if (facts.macs !== undefined || facts.wakeSecretSealed !== undefined) await liftWakePause(db, nodeId)
}

/** No request wakes the node for a while. Of several gateways that find out within one pause the first writes it. `now`: RFC 3339. */
export async function storeWakePause(db: Database, nodeId: NodeId, vain: StoredVain, now: string): Promise<void> {
  const stored = sql`jsonb_build_object('count', ${vain.count}::int, 'until', ${vain.until}::text)`
  const pausedUntil = sql`coalesce(${nodes.asleep} -> 'vain' ->> 'until', '')`
  await db
    .update(nodes)
    .set({ asleep: sql`${nodes.asleep} || jsonb_build_object('vain', ${stored})` })
    .where(and(live(nodeId), isNotNull(nodes.asleep), lte(pausedUntil, now)))
}

/** Requests may wake it again. */
export async function liftWakePause(db: Database, nodeId: NodeId): Promise<void> {
  await db
    .update(nodes)
    .set({ asleep: sql`${nodes.asleep} - 'vain'` })
    .where(and(live(nodeId), isNotNull(sql`${nodes.asleep} -> 'vain'`)))
}

/** The node sleeps from now on. Of several gateways that hear it the first writes it. */
export async function storeSleep(db: Database, nodeId: NodeId, asleep: StoredSleep): Promise<void> {
  await db
    .update(nodes)
    .set({ asleep })
    .where(and(live(nodeId), isNull(nodes.asleep)))
}

/** An operator says so, whatever was known before. */
export async function setSleep(db: Database, nodeId: NodeId, asleep: StoredSleep): Promise<void> {
  await db.update(nodes).set({ asleep }).where(live(nodeId))
}

/** The node was seen awake at this time (RFC 3339). A sleep that began later stays. */
export async function endSleep(db: Database, nodeId: NodeId, at: string): Promise<void> {
  await db
    .update(nodes)
    .set({ asleep: null })
    .where(and(eq(nodes.nodeId, nodeId), isNotNull(nodes.asleep), lte(sql`${nodes.asleep} ->> 'since'`, at)))
}

export async function saveWakeTime(db: Database, nodeId: NodeId, wakeMs: number): Promise<void> {
  await db.update(nodes).set({ wakeMs }).where(eq(nodes.nodeId, nodeId))
}

/** True for one gateway in each `gapMs`: it sends the next magic packet for the node. */
export async function claimPacket(db: Database, nodeId: NodeId, gapMs: number): Promise<boolean> {
  const claimed = await db
    .insert(nodeWakes)
    .values({ nodeId, packetAt: sql`now()` })
    .onConflictDoUpdate({
      target: nodeWakes.nodeId,
      set: { packetAt: sql`now()` },
      setWhere: sql`${nodeWakes.packetAt} <= now() - ${gapMs} * interval '1 millisecond'`,
    })
    .returning({ nodeId: nodeWakes.nodeId })
  return claimed.length > 0
}
