import { and, desc, eq, sql } from 'drizzle-orm'
import type { WorkKind } from '../../../protocol/wire/work-kinds.ts'
import type { Database } from '../../client.ts'
import { inPieces } from '../../cursor.ts'
import { receipts } from '../../schema/partitioned/receipts.ts'
import { payoutBatches } from '../../schema/settlement.ts'

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

/** The moment from which the newest billed receipts date: as rows, or as the groups that have as many together. */
const sinceBilled = (limit: number) => sql`coalesce(greatest(
  (select created_at from receipt_rows where billed order by created_at desc offset ${limit - 1} limit 1),
  (select created_at from (
    select created_at, sum(rows) over (order by created_at desc, last_seq desc) as receipts from receipt_groups where billed
      order by created_at desc, last_seq desc limit ${limit}) g
    where g.receipts >= ${limit} order by created_at desc limit 1)), '-infinity')`

/** Newest first, billed work only (§14): a caller's own correlation id stays out, it may name anything. */
export async function publicReceipts(db: Database, limit: number): Promise<readonly PublicReceipt[]> {
  return db
    .select({
      receiptHash: receipts.receiptHash,
      nodeId: receipts.nodeId,
      jobId: sql<string>`case when ${receipts.kind} = 'private_job' then coalesce(${receipts.jobId}, ${receipts.requestId}) else ${receipts.requestId} end`,
      nodeClass: receipts.nodeClass,
      modelId: receipts.modelId,
      status: receipts.status,
      receivedAt: receipts.createdAt,
      batchId: receipts.batchId,
    })
    .from(receipts)
    .where(and(eq(receipts.billed, true), sql`${receipts.createdAt} >= ${sinceBilled(limit)}`))
    .orderBy(desc(receipts.createdAt), desc(receipts.receiptHash))
    .limit(limit)
}

/** Receipts per piece: there may be a million. */
const hashesAtOnce = 10_000

/** Of accepted, unbatched, billed receipts, in their order. Needs a transaction. */
export async function pendingReceiptHashes(tx: Database): Promise<readonly string[]> {
  const query = sql`
    select hash from (
      select receipt_hash as hash from receipt_rows where billed and status = 'accepted'
      union all
      select x.hash from receipt_groups g, lateral (select g.hashes || ''::bytea as hashes offset 0) h, generate_series(1, g.rows) as n,
          lateral (select '0x' || encode(substring(h.hashes from 32 * n - 31 for 32), 'hex') as hash) x
        where g.billed and not exists (select 1 from payout_rows p where p.batch_id is not null and p.receipt_hash = x.hash)
    ) accepted order by hash collate "C"`
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
  const [row] = await db.execute<{ accepted: number; latest: string | null }>(sql`
    select ((select count(*) from receipt_rows where billed and status in ('accepted', 'batched', 'finalized'))
        + (select coalesce(sum(rows), 0) from receipt_groups where billed))::int as accepted,
      greatest((select max(created_at) from receipt_rows where billed),
        (select max(created_at) from receipt_groups where billed)) as latest`)
  return { accepted: row?.accepted ?? 0, latestAt: dateOf(row?.latest) }
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
