import { and, desc, eq, gt, inArray, isNull, sql } from 'drizzle-orm'
import { type EnrollmentTokenId, type NodeId, newId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { enrollmentTokens } from '../../schema/pool.ts'

export type EnrollmentTokenRow = typeof enrollmentTokens.$inferSelect
export type NewEnrollmentToken = Omit<
  typeof enrollmentTokens.$inferInsert,
  'tokenId' | 'createdAt' | 'expiresAt' | 'usedAt' | 'usedBy'
>

/** The database's clock alone says when it ends, here and in `useEnrollmentToken`. */
export async function insertEnrollmentToken(
  db: Database,
  token: NewEnrollmentToken,
  lifeMs: number,
): Promise<EnrollmentTokenRow> {
  const [row] = await db
    .insert(enrollmentTokens)
    .values({
      ...token,
      tokenId: newId('enr'),
      expiresAt: sql`now() + ${lifeMs}::double precision * interval '1 millisecond'`,
    })
    .returning()
  if (row === undefined) throw new Error('an enrolment token was not inserted')
  return row
}

/** Newest first, including used and expired ones. */
export async function listEnrollmentTokens(db: Database, limit: number): Promise<readonly EnrollmentTokenRow[]> {
  return db.select().from(enrollmentTokens).orderBy(desc(enrollmentTokens.tokenId)).limit(limit)
}

export async function deleteEnrollmentToken(db: Database, tokenId: string): Promise<boolean> {
  const gone = await db
    .delete(enrollmentTokens)
    .where(eq(enrollmentTokens.tokenId, tokenId as EnrollmentTokenId))
    .returning({ tokenId: enrollmentTokens.tokenId })
  return gone.length > 0
}

const good = (hashes: readonly Buffer[]) =>
  and(
    inArray(enrollmentTokens.tokenHash, [...hashes]),
    isNull(enrollmentTokens.usedAt),
    gt(enrollmentTokens.expiresAt, sql`now()`),
  )

/** null: unknown, used or expired. */
export async function findEnrollmentToken(db: Database, hashes: readonly Buffer[]): Promise<EnrollmentTokenRow | null> {
  const [row] = await db.select().from(enrollmentTokens).where(good(hashes))
  return row ?? null
}

/**
 * Uses the token up for this node; null when it is unknown, used or expired. Of many at once the row's lock lets one
 * through, and the others find it used once that one's transaction has ended.
 */
export async function useEnrollmentToken(
  tx: Database,
  hashes: readonly Buffer[],
  nodeId: NodeId,
): Promise<EnrollmentTokenRow | null> {
  const [row] = await tx
    .update(enrollmentTokens)
    .set({ usedAt: sql`now()`, usedBy: nodeId })
    .where(good(hashes))
    .returning()
  return row ?? null
}
