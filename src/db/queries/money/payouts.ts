import { and, desc, eq, gte, inArray, isNull, ne, type SQL, sql } from 'drizzle-orm'
import type { NodeId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { feeRows, ledgerRows, payoutRows } from '../../schema/ledger.ts'
import { payouts, protocolFees } from '../../schema/partitioned/charges.ts'

export type PayoutRow = typeof payoutRows.$inferSelect
export type OpenSettlementStatus = Exclude<PayoutRow['settlementStatus'], 'void'>

export interface SettlementGroup {
  readonly settlementStatus: OpenSettlementStatus
  readonly payoutCount: number
  /** The nodes' share. */
  readonly payoutWei: bigint
  /** Share and fee. */
  readonly grossWei: bigint
}

/** By status; of one node, or of all. What was rejected counts nowhere. */
export async function settlementGroups(
  db: Database,
  since: Date,
  nodeId: string | null = null,
): Promise<readonly SettlementGroup[]> {
  const rows = await db
    .select({
      status: payouts.settlementStatus,
      count: sql<number>`count(*)::int`,
      payout: sql<string>`sum(${payouts.amountWei})::text`,
      gross: sql<string>`sum(${payouts.grossWei})::text`,
    })
    .from(payouts)
    .where(
      and(
        ne(payouts.settlementStatus, 'void'),
        gte(payouts.createdAt, since),
        nodeId === null ? undefined : eq(payouts.nodeId, nodeId as NodeId),
      ),
    )
    .groupBy(payouts.settlementStatus)
    .orderBy(payouts.settlementStatus)
  return rows.map(({ status, count, payout, gross }) => ({
    settlementStatus: status as OpenSettlementStatus,
    payoutCount: count,
    payoutWei: BigInt(payout),
    grossWei: BigInt(gross),
  }))
}

/** Whether something that the node earned while it had no address waits for the first address that it gets (§31). */
export async function hasUnnamedEarnings(db: Database, nodeId: NodeId): Promise<boolean> {
  const unnamed = and(eq(payouts.nodeId, nodeId), eq(payouts.settlementStatus, 'pending'), isNull(payouts.earnedPayee))
  const found = await db.select({ entryId: payouts.entryId }).from(payouts).where(unnamed).limit(1)
  return found.length > 0
}

/** Newest first. */
export async function nodePayouts(
  db: Database,
  nodeId: string,
  since: Date,
  limit: number,
): Promise<readonly PayoutRow[]> {
  return db
    .select()
    .from(payouts)
    .where(
      and(eq(payouts.nodeId, nodeId as NodeId), ne(payouts.settlementStatus, 'void'), gte(payouts.createdAt, since)),
    )
    .orderBy(desc(payouts.createdAt), desc(payouts.entryId))
    .limit(limit)
}

export interface FeeRow {
  readonly entryId: string
  readonly privateJobId: string | null
  readonly receiptHash: string
  readonly amountWei: bigint
  /** Of the payout it was taken from; a fee without one needs no settlement. */
  readonly settlementStatus: OpenSettlementStatus
  readonly createdAt: Date
}

/** The newest groups with a fee, one per fee needed: nothing older than the oldest of them is read. */
const sinceGroup = (limit: number): SQL =>
  sql`coalesce((select min(g.created_at) from (select created_at from charge_groups where fees_total > 0
    order by created_at desc limit ${limit}) g having count(*) >= ${limit}), '-infinity')`

/** Newest first, but for those that were given back. */
export async function recentFees(db: Database, since: Date, limit: number): Promise<readonly FeeRow[]> {
  const fees = await db
    .select()
    .from(protocolFees)
    .where(
      and(
        ne(protocolFees.status, 'refunded'),
        gte(protocolFees.createdAt, since),
        sql`${protocolFees.createdAt} >= ${sinceGroup(limit)}`,
      ),
    )
    .orderBy(desc(protocolFees.createdAt), desc(protocolFees.entryId))
    .limit(limit)
  const oldest = fees.at(-1)
  if (oldest === undefined) return []
  // Share and fee of a charge are of one moment.
  const found = await db
    .select({ receiptHash: payouts.receiptHash, status: payouts.settlementStatus })
    .from(payouts)
    .where(
      and(
        inArray(
          payouts.receiptHash,
          fees.map(({ receiptHash }) => receiptHash),
        ),
        gte(payouts.createdAt, oldest.createdAt),
      ),
    )
  const statuses = new Map(found.map(({ receiptHash, status }) => [receiptHash, status]))
  return fees.map(({ entryId, privateJobId, receiptHash, amountWei, createdAt }) => {
    const status = statuses.get(receiptHash) ?? 'void'
    return {
      entryId,
      privateJobId,
      receiptHash,
      amountWei,
      createdAt,
      settlementStatus: status === 'void' ? 'finalized' : status,
    }
  })
}

export interface TreasuryTotals {
  readonly debitsWei: bigint
  /** What was given back of these debits, at whatever time. */
  readonly refundsWei: bigint
  readonly payoutsWei: bigint
  readonly feesWei: bigint
}

const [debit, refund] = [sql.raw(kindText('debit')), sql.raw(kindText('refund'))]

/** One statement: debits = payouts + fees + refunds at every moment, and in every window. */
export async function treasuryTotals(db: Database, since: Date): Promise<TreasuryTotals> {
  const from = since.toISOString()
  const ofGroups = (total: string, more = 'true') =>
    sql`(select coalesce(sum(${sql.raw(total)}), 0) from charge_groups where created_at >= ${from}::timestamptz and ${sql.raw(more)})`
  const rows = await db.execute(sql`select
    (select (coalesce(sum(amount_wei), 0) + ${ofGroups('charged_total')})::text from ${ledgerRows}
      where kind = ${debit} and created_at >= ${from}::timestamptz) as debits,
    (select coalesce(sum(b.amount_wei), 0)::text from ${ledgerRows} b
      join ${ledgerRows} l on l.kind = ${debit} and l.reservation_id = b.reservation_id
      where b.kind = ${refund} and l.created_at >= ${from}::timestamptz) as refunds,
    (select (coalesce(sum(amount_wei), 0) + ${ofGroups('shares_total', 'not shares_moved')})::text from ${payoutRows}
      where settlement_status <> 'void' and created_at >= ${from}::timestamptz) as payouts,
    (select (coalesce(sum(amount_wei), 0) + ${ofGroups('fees_total')})::text from ${feeRows}
      where status <> 'refunded' and created_at >= ${from}::timestamptz) as fees`)
  const [row] = rows as unknown as readonly { debits: string; refunds: string; payouts: string; fees: string }[]
  return {
    debitsWei: BigInt(row?.debits ?? '0'),
    refundsWei: BigInt(row?.refunds ?? '0'),
    payoutsWei: BigInt(row?.payouts ?? '0'),
    feesWei: BigInt(row?.fees ?? '0'),
  }
}

/** Newest first. */
export async function batchesOfNode(db: Database, nodeId: string, limit: number): Promise<readonly string[]> {
  const rows = await db.execute<{ id: string }>(sql`
    select b.batch_id as id from payout_batches b
    where exists (select 1 from payouts p where p.batch_id = b.batch_id and p.node_id = ${nodeId})
    order by b.created_at desc, b.batch_id desc limit ${limit}`)
  return rows.map(({ id }) => id)
}
