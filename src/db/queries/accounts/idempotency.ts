import { and, eq, lt, sql } from 'drizzle-orm'
import type { CustomerId } from '../../../ids.ts'
import { minuteMs } from '../../../time.ts'
import type { Database } from '../../client.ts'
import { idempotencyKeys } from '../../schema/idempotency.ts'

export type IdempotencyRow = typeof idempotencyKeys.$inferSelect

export interface IdempotencyClaim {
  readonly customerId: string
  readonly keyHash: Buffer
  readonly fingerprint: Buffer
  readonly requestId: string
}

export interface IdempotentOutcome {
  readonly requestId: string
  readonly receiptHash: string
  readonly usage: NonNullable<IdempotencyRow['usage']>
}

/** Between a claim and its reservation: longer than both take where the database is slow, leases are recalled, and it is asked again, ms. */
const beingReservedMs = 2 * minuteMs

/** A claim whose gateway died has an uncharged reservation, or still no reservation after `beingReservedMs`. A charge of 0 leaves a receipt. */
const abandoned = sql`(${idempotencyKeys.status} = 'in_progress' and ${idempotencyKeys.createdAt} < now() - interval '${sql.raw(String(beingReservedMs))} ms'
  and not exists (select 1 from reservations r where r.reservation_id = ${idempotencyKeys.requestId}
    and (r.status <> 'released' or r.receipt_hash is not null)))`

/** The row of the key: the caller's own claim, or whose it is. */
export async function claimKey(db: Database, claim: IdempotencyClaim, ttlMs: number): Promise<IdempotencyRow> {
  const customerId = claim.customerId as CustomerId
  const mine = and(eq(idempotencyKeys.customerId, customerId), eq(idempotencyKeys.keyHash, claim.keyHash))
  const row = {
    ...claim,
    customerId,
    status: 'in_progress' as const,
    receiptHash: null,
    usage: null,
    httpStatus: null,
    completedAt: null,
    expiresAt: sql`now() + ${ttlMs}::bigint * interval '1 ms'`,
  }
  for (;;) {
    const [claimed] = await db
      .insert(idempotencyKeys)
      .values(row)
      .onConflictDoUpdate({
        target: [idempotencyKeys.customerId, idempotencyKeys.keyHash],
        set: { ...row, createdAt: sql`now()` },
        setWhere: sql`${abandoned} or ${idempotencyKeys.expiresAt} < now()`,
      })
      .returning()
    if (claimed !== undefined) return claimed
    const [held] = await db.select().from(idempotencyKeys).where(mine)
    // Released between the two statements: it is free now.
    if (held !== undefined) return held
  }
}

/** In the transaction of the charge. */
export async function completeKeys(tx: Database, outcomes: readonly IdempotentOutcome[]): Promise<void> {
  if (outcomes.length === 0) return
  const rows = outcomes.map(({ requestId, receiptHash, usage }) => ({ id: requestId, hash: receiptHash, usage }))
  await tx.execute(sql`update idempotency_keys k set status = 'completed', receipt_hash = q.hash, usage = q.usage::jsonb,
      http_status = 200, completed_at = now()
    from json_to_recordset(${JSON.stringify(rows)}::text::json) as q (id text, hash text, usage json)
    where k.request_id = q.id and k.status = 'in_progress'`)
}

/** Nothing was billed: the key is free again. */
export async function releaseKey(db: Database, customerId: string, requestId: string): Promise<void> {
  await db
    .delete(idempotencyKeys)
    .where(
      and(
        eq(idempotencyKeys.customerId, customerId as CustomerId),
        eq(idempotencyKeys.requestId, requestId),
        eq(idempotencyKeys.status, 'in_progress'),
      ),
    )
}

export async function dropOldKeys(db: Database): Promise<void> {
  await db.delete(idempotencyKeys).where(lt(idempotencyKeys.expiresAt, sql`now()`))
}
