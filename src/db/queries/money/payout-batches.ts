import { and, asc, count, eq, inArray, ne, notInArray, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { payoutRows } from '../../schema/ledger.ts'
import { payoutBatches } from '../../schema/settlement.ts'
import { receiptRows } from '../../schema/work.ts'

export type { SignedTransaction } from '../../schema/settlement.ts'
export type PayoutBatchRow = typeof payoutBatches.$inferSelect
export type BatchChanges = Partial<Omit<PayoutBatchRow, 'batchId'>>

export interface ClaimOptions {
  readonly limit: number
  readonly leaseId: string
  readonly leaseMs: number
  readonly announceMs: number
}

export interface PayablePayout {
  readonly entryId: string
  readonly receiptHash: string
  /** The node's address when it was earned; where it had none, the one it has now, or had when it was deleted; null: it cannot be paid yet (§31). */
  readonly payee: string | null
  readonly amountWei: bigint
  readonly createdAt: Date
  /** The seq of the group of charges that has the share still; null: it is a row. */
  readonly groupLastSeq: bigint | null
}

/** Only one gateway builds batches at a time (§14). The lock is held until the transaction ends. */
export async function lockBuilder(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 5)`)
}

/** Locks signing for all gateways, so that no nonce is used twice. */
export async function lockNonces(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 6)`)
}

/**
 * What is kept of a deleted node says nothing of one that was written back by hand. Of an agent's node that was deleted before the database kept the
 * addresses of deleted nodes, what it stated itself.
 */
const payeeNow = sql`coalesce(p.earned_payee, n.payout_address, case when n.node_id is null then coalesce(d.payout_address,
  (select s.payee from payee_statements s where s.node_id = p.node_id order by s.signed_at desc limit 1)) end)`

/** Payouts that are pending and not on hold, oldest first. Those without an address come last with `payee: null`. */
export async function payablePayouts(db: Database, limit: number): Promise<readonly PayablePayout[]> {
  const rows = await db.execute(sql`
    select p.entry_id, p.receipt_hash, ${payeeNow} as payee, p.amount_wei::text as amount, p.created_at,
      p.group_last_seq::text as group_seq
    from payouts p left join nodes n on n.node_id = p.node_id left join deleted_nodes d on d.node_id = p.node_id
    where p.settlement_status = 'pending' and not p.held
    order by ${payeeNow} is null, p.created_at, p.entry_id limit ${limit}`)
  return (
    rows as unknown as readonly {
      entry_id: string
      receipt_hash: string
      payee: string | null
      amount: string
      created_at: string
      group_seq: string | null
    }[]
  ).map((row) => ({
    entryId: row.entry_id,
    receiptHash: row.receipt_hash,
    payee: row.payee,
    amountWei: BigInt(row.amount),
    createdAt: new Date(row.created_at),
    groupLastSeq: row.group_seq === null ? null : BigInt(row.group_seq),
  }))
}

/** Inserts the batch and moves its payouts and receipts into it. Shares in groups become rows first, with all of their groups. */
export async function insertBatch(
  tx: Database,
  batch: { readonly batchId: string; readonly merkleRoot: string; readonly totalAmountWei: bigint },
  members: readonly (PayablePayout & { readonly payee: string })[],
): Promise<PayoutBatchRow> {
  const [row] = await tx
    .insert(payoutBatches)
    .values({ ...batch, payoutCount: members.length, leafVersion: 2 })
    .returning()
  if (row === undefined) throw new Error('a batch was not inserted')
  const chosen = JSON.stringify(members.map(({ entryId, payee }) => ({ id: entryId, payee })))
  const groups = new Set(members.flatMap(({ groupLastSeq: seq }) => (seq === null ? [] : [seq])))
  if (groups.size > 0) await tx.execute(sql`select charge_shares_move(${`{${[...groups].join(',')}}`}::text::bigint[])`)
  await tx.execute(sql`update payout_rows p set settlement_status = 'batched', batch_id = ${batch.batchId}, payee = q.payee,
      updated_at = now()
    from json_to_recordset(${chosen}::text::json) as q (id text, payee text) where p.entry_id = q.id`)
  await tx.execute(sql`update receipt_rows r set status = 'batched', batch_id = ${batch.batchId}
    from payout_rows p where p.batch_id = ${batch.batchId} and r.receipt_hash = p.receipt_hash`)
  return row
}

export async function getBatch(db: Database, batchId: string): Promise<PayoutBatchRow | null> {
  const [row] = await db.select().from(payoutBatches).where(eq(payoutBatches.batchId, batchId))
  return row ?? null
}

/** The payouts of a batch in the order of its tree. */
export async function batchMembers(
  db: Database,
  batchId: string,
): Promise<
  readonly {
    readonly entryId: string
    readonly receiptHash: string
    readonly nodeId: string
    readonly payee: string
    readonly amountWei: bigint
  }[]
> {
  const rows = await db
    .select({
      entryId: payoutRows.entryId,
      receiptHash: payoutRows.receiptHash,
      nodeId: payoutRows.nodeId,
      payee: payoutRows.payee,
      amountWei: payoutRows.amountWei,
    })
    .from(payoutRows)
    .where(eq(payoutRows.batchId, batchId))
    .orderBy(asc(payoutRows.entryId))
  return rows.map(({ payee, ...row }) => ({ ...row, payee: payee ?? '' }))
}

/** When the log took the batch as it is, by the entry of its id; null: it has not. */
const announcedAt = sql`(select e.created_at from log_entries e where e.kind = 'batch' and e.subject = b.batch_id)`
const afterMs = (ms: number) => sql`${ms}::bigint * interval '1 ms'`

/**
 * Due batches under a fresh lease. One that was not sent yet waits until the log has announced it for `announceMs`; one that was is
 * looked after whatever the setting says now.
 */
export async function claimBatches(
  db: Database,
  { limit, leaseId, leaseMs, announceMs }: ClaimOptions,
): Promise<readonly PayoutBatchRow[]> {
  const due = sql`(select b.batch_id from payout_batches b
    where b.status <> 'completed' and not b.held and b.next_attempt_at <= now()
      and (b.lease_until is null or b.lease_until < now())
      and (b.status <> 'created' or ${announceMs} = 0 or ${announcedAt} <= now() - ${afterMs(announceMs)})
    order by b.next_attempt_at limit ${limit} for update skip locked)`
  return db
    .update(payoutBatches)
    .set({ leaseId, leaseUntil: sql`now() + ${leaseMs}::bigint * interval '1 ms'` })
    .where(sql`${payoutBatches.batchId} in ${due}`)
    .returning()
}

/** Until when a batch that was not sent yet is announced; null: that is over. */
export async function announcedUntil(db: Database, batchId: string, announceMs: number): Promise<Date | 'soon' | null> {
  if (announceMs === 0) return null
  const [row] = await db.execute<{ until: string | null }>(sql`
    select floor(extract(epoch from ${announcedAt} + ${afterMs(announceMs)}) * 1000)::bigint::text as until
    from payout_batches b
    where b.batch_id = ${batchId} and b.status = 'created'
      and coalesce(${announcedAt} > now() - ${afterMs(announceMs)}, true)`)
  if (row === undefined) return null
  return row.until === null ? 'soon' : new Date(Number(row.until))
}

/** Ends the lease. Returns false, and writes nothing, if another gateway has the lease. */
export async function updateClaimed(
  tx: Database,
  batchId: string,
  leaseId: string,
  changes: BatchChanges,
  waitMs: number,
): Promise<boolean> {
  const rows = await tx
    .update(payoutBatches)
    .set({
      ...changes,
      leaseId: null,
      leaseUntil: null,
      nextAttemptAt: sql`now() + ${waitMs}::bigint * interval '1 ms'`,
    })
    .where(and(eq(payoutBatches.batchId, batchId), eq(payoutBatches.leaseId, leaseId)))
    .returning({ batchId: payoutBatches.batchId })
  return rows.length > 0
}

/** Payouts move with their batch. */
export async function movePayouts(
  tx: Database,
  batchId: string,
  status: 'batched' | 'submitting' | 'submitted' | 'finalized',
): Promise<void> {
  const settledAt = status === 'finalized' ? sql`now()` : null
  await tx
    .update(payoutRows)
    .set({ settlementStatus: status, settledAt, updatedAt: sql`now()` })
    .where(eq(payoutRows.batchId, batchId))
  if (status !== 'finalized') return
  await tx.update(receiptRows).set({ status: 'finalized' }).where(eq(receiptRows.batchId, batchId))
}

/** The nonces of other batches that are signed and not completed, ascending. */
export async function openNonces(db: Database, exceptBatchId: string): Promise<readonly number[]> {
  const rows = await db
    .select({ nonce: payoutBatches.txNonce })
    .from(payoutBatches)
    .where(
      and(
        inArray(payoutBatches.status, ['submitting', 'submitted']),
        sql`${payoutBatches.batchId} <> ${exceptBatchId}`,
      ),
    )
    .orderBy(asc(payoutBatches.txNonce))
  return rows.flatMap(({ nonce }) => (nonce === null ? [] : [nonce]))
}

/** By status: those that are not completed, without `except`. */
export async function countOpenBatches(
  db: Database,
  except: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const rows = await db
    .select({ status: payoutBatches.status, batches: count() })
    .from(payoutBatches)
    .where(and(ne(payoutBatches.status, 'completed'), notInArray(payoutBatches.batchId, [...except])))
    .groupBy(payoutBatches.status)
  return Object.fromEntries(rows.map(({ status, batches }) => [status, batches]))
}

/** Makes a batch due now, also one on hold. Returns null if it does not exist and `false` if it is completed. */
export async function wakeBatch(
  db: Database,
  batchId: string,
  unhold: boolean,
): Promise<PayoutBatchRow | null | false> {
  const [row] = await db
    .update(payoutBatches)
    .set({ nextAttemptAt: sql`now()`, ...(unhold ? { held: false, attempts: 0 } : {}) })
    .where(
      and(
        eq(payoutBatches.batchId, batchId),
        inArray(payoutBatches.status, ['created', 'submitting', 'submitted']),
        unhold ? undefined : eq(payoutBatches.held, false),
      ),
    )
    .returning()
  if (row !== undefined) return row
  return (await getBatch(db, batchId)) === null ? null : false
}
