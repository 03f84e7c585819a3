import { desc, eq, sql } from 'drizzle-orm'
import type { WorkKind } from '../../../protocol/wire/work-kinds.ts'
import type { Database } from '../../client.ts'
import { inPieces } from '../../cursor.ts'
import { payoutBatches } from '../../schema/settlement.ts'
import { receiptRows } from '../../schema/work.ts'

export type BatchRow = typeof payoutBatches.$inferSelect

export interface PublicReceipt {
  readonly receiptHash: string
  readonly nodeId: string
  /** The caller's job, else the request. */
  readonly jobId: string
  readonly nodeClass: string
  readonly modelId: string
  readonly status: 'accepted' | 'held' | 'rejected' | 'batched' | 'finalized'
  readonly receivedAt: Date
  readonly batchId: string | null
}

/** Newest first, billed work only (§14): a caller's own correlation id stays out, it may name anything. */
export async function publicReceipts(db: Database, limit: number): Promise<readonly PublicReceipt[]> {
  return db
    .select({
      receiptHash: receiptRows.receiptHash,
      nodeId: receiptRows.nodeId,
      jobId: sql<string>`case when ${receiptRows.kind} = 'private_job' then coalesce(${receiptRows.jobId}, ${receiptRows.requestId}) else ${receiptRows.requestId} end`,
      nodeClass: receiptRows.nodeClass,
      modelId: receiptRows.modelId,
      status: receiptRows.status,
      receivedAt: receiptRows.createdAt,
      batchId: receiptRows.batchId,
    })
    .from(receiptRows)
    .where(eq(receiptRows.billed, true))
    .orderBy(desc(receiptRows.createdAt), desc(receiptRows.receiptHash))
    .limit(limit)
}

/** There may be a million: so many are taken over in one piece. */
const hashesAtOnce = 10_000

/** Of accepted, unbatched, billed receipts, in their order. Needs a transaction. */
export async function pendingReceiptHashes(tx: Database): Promise<readonly string[]> {
  const query = sql`select receipt_hash as hash from receipt_rows where billed and status = 'accepted' order by receipt_hash collate "C"`
  const hashes: string[] = []
  for await (const rows of inPieces<{ hash: string }>(tx, query, hashesAtOnce)) {
    for (const { hash } of rows) hashes.push(hash)
  }
  return hashes
}

export interface ReceiptCounts {
  readonly accepted: number
  readonly latestAt: Date | null
}

/** `accepted`: ever, so also what is batched or final by now. */
export async function receiptCounts(db: Database): Promise<ReceiptCounts> {
  const [row] = await db
    .select({
      accepted: sql<number>`count(*) filter (where ${receiptRows.status} in ('accepted', 'batched', 'finalized'))::int`,
      latestAt: sql<string | null>`max(${receiptRows.createdAt})`,
    })
    .from(receiptRows)
    .where(eq(receiptRows.billed, true))
  return { accepted: row?.accepted ?? 0, latestAt: dateOf(row?.latestAt) }
}

const dateOf = (text: string | null | undefined) => (text == null ? null : new Date(text))

export interface PayoutCounts {
  readonly kind: WorkKind
  readonly status: 'pending' | 'batched' | 'submitting' | 'submitted' | 'finalized'
  readonly count: number
  readonly latestAt: Date
}

export async function payoutCounts(db: Database): Promise<readonly PayoutCounts[]> {
  const rows = await db.execute(sql`select kind, settlement_status as status, count(*)::int as count,
      max(created_at) as latest_at
    from payouts where settlement_status <> 'void' group by kind, settlement_status order by kind, settlement_status`)
  return (rows as unknown as readonly (Omit<PayoutCounts, 'latestAt'> & { latest_at: string })[]).map(
    ({ latest_at, ...row }) => ({ ...row, latestAt: new Date(latest_at) }),
  )
}

export interface BatchCounts {
  readonly status: BatchRow['status']
  readonly count: number
  readonly latestAt: Date
  readonly finalizedAt: Date | null
}

export async function batchCounts(db: Database): Promise<readonly BatchCounts[]> {
  const rows = await db.execute(sql`select status, count(*)::int as count, max(created_at) as latest_at,
      max(finalized_at) as finalized_at from payout_batches group by status`)
  return (
    rows as unknown as readonly {
      status: BatchRow['status']
      count: number
      latest_at: string
      finalized_at: string | null
    }[]
  ).map(({ status, count, latest_at, finalized_at }) => ({
    status,
    count,
    latestAt: new Date(latest_at),
    finalizedAt: dateOf(finalized_at),
  }))
}

/** Newest first. */
export async function listBatches(db: Database, limit: number): Promise<readonly BatchRow[]> {
  return db
    .select()
    .from(payoutBatches)
    .orderBy(desc(payoutBatches.createdAt), desc(payoutBatches.batchId))
    .limit(limit)
}

export async function latestFinalizedPayout(db: Database): Promise<Date | null> {
  const rows = await db.execute(
    sql`select max(settled_at) as at from payout_rows where settlement_status = 'finalized'`,
  )
  return dateOf((rows as unknown as readonly { at: string | null }[])[0]?.at)
}
