import { and, count, desc, eq, gt, inArray, lt, type SQL, sql } from 'drizzle-orm'
import { type JoinId, type NodeId, newId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { nodeJoins } from '../../schema/joins.ts'

export type JoinRow = typeof nodeJoins.$inferSelect
export type NewJoin = Pick<
  typeof nodeJoins.$inferInsert,
  'publicKey' | 'transportKeys' | 'name' | 'commitment' | 'routerKid' | 'nonce' | 'addressHash'
>

const fromNow = (ms: number) => sql`now() + ${ms}::double precision * interval '1 millisecond'`
const open = and(inArray(nodeJoins.state, ['begun', 'waiting']), gt(nodeJoins.expiresAt, sql`now()`))
const one = (joinId: string) => eq(nodeJoins.joinId, joinId as JoinId)

/** Those who begin take turns, so that the counts hold; it ends with the transaction. */
export async function joinsInTurn(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 39)`)
}

export interface JoinCounts {
  readonly all: number
  /** From this address. */
  readonly here: number
}

/** How many wait, and how many are kept whatever became of them. */
export async function countJoins(
  tx: Database,
  addressHash: string,
): Promise<{ readonly waiting: JoinCounts; readonly kept: JoinCounts }> {
  const isHere = eq(nodeJoins.addressHash, addressHash)
  const those = (which: SQL | undefined) => sql<number>`count(*) filter (where ${which})`.mapWith(Number)
  const [row] = await tx
    .select({ all: count(), here: those(isHere), open: those(open), openHere: those(and(open, isHere)) })
    .from(nodeJoins)
  const { all = 0, here = 0, open: waiting = 0, openHere = 0 } = row ?? {}
  return { waiting: { all: waiting, here: openHere }, kept: { all, here } }
}

/** null: this commitment was told before. */
export async function insertJoin(tx: Database, join: NewJoin, revealMs: number): Promise<JoinRow | null> {
  const [row] = await tx
    .insert(nodeJoins)
    .values({ ...join, joinId: newId('join'), expiresAt: fromNow(revealMs) })
    .onConflictDoNothing({ target: nodeJoins.commitment })
    .returning()
  return row ?? null
}

/** A computer that asks anew no longer waits with what it asked before. */
export async function withdrawJoinsOf(tx: Database, publicKey: Buffer): Promise<void> {
  await tx
    .update(nodeJoins)
    .set({ state: 'withdrawn' })
    .where(and(open, eq(nodeJoins.publicKey, publicKey)))
}

/** Joins that ended so long ago that they can no longer be read or repeated. */
export async function dropOldJoins(db: Database, keptMs: number): Promise<void> {
  await db.delete(nodeJoins).where(lt(nodeJoins.expiresAt, fromNow(-keptMs)))
}

/** `live`: it has not expired by the clock of the database. */
export async function findJoin(db: Database, joinId: string): Promise<(JoinRow & { live: boolean }) | null> {
  const live = sql<boolean>`${nodeJoins.expiresAt} > now()`
  const [row] = await db.select({ row: nodeJoins, live }).from(nodeJoins).where(one(joinId))
  return row === undefined ? null : { ...row.row, live: row.live }
}

/**
 * It waits for an operator from now on, counted from its begin. null: it is gone, or has other words already. `taken`:
 * another that waits has the same words.
 */
export async function revealJoin(
  db: Database,
  joinId: string,
  shown: { readonly nodeNonce: string; readonly words: string },
  waitMs: number,
): Promise<JoinRow | null | 'taken'> {
  return db.transaction(async (tx) => {
    await joinsInTurn(tx)
    const same = and(open, eq(nodeJoins.words, shown.words), sql`${nodeJoins.joinId} <> ${joinId}`)
    const [other] = await tx.select({ joinId: nodeJoins.joinId }).from(nodeJoins).where(same)
    if (other !== undefined) {
      await tx.update(nodeJoins).set({ state: 'withdrawn' }).where(one(joinId))
      return 'taken'
    }
    const until = sql`${nodeJoins.createdAt} + ${waitMs}::double precision * interval '1 millisecond'`
    const [row] = await tx
      .update(nodeJoins)
      .set({ ...shown, state: 'waiting', expiresAt: until })
      .where(and(one(joinId), open))
      .returning()
    return row ?? null
  })
}

/** Newest first. */
export async function waitingJoins(db: Database, limit: number): Promise<readonly JoinRow[]> {
  return db
    .select()
    .from(nodeJoins)
    .where(and(open, eq(nodeJoins.state, 'waiting')))
    .orderBy(desc(nodeJoins.joinId))
    .limit(limit)
}

/** Ends one that waits; null: it waits no longer. Of two operators at once the row's lock lets one through. */
export async function endWaitingJoin(
  tx: Database,
  joinId: string,
  ended: { readonly state: 'confirmed'; readonly nodeId: NodeId } | { readonly state: 'refused' },
): Promise<JoinRow | null> {
  const [row] = await tx
    .update(nodeJoins)
    .set(ended)
    .where(and(one(joinId), open, eq(nodeJoins.state, 'waiting')))
    .returning()
  return row ?? null
}

/** False: no such join, or one that has ended. */
export async function withdrawJoin(db: Database, joinId: string): Promise<boolean> {
  const rows = await db
    .update(nodeJoins)
    .set({ state: 'withdrawn' })
    .where(and(one(joinId), open))
    .returning({ joinId: nodeJoins.joinId })
  return rows.length > 0
}
