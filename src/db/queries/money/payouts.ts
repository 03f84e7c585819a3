import { and, desc, eq, gte, inArray, isNull, ne, or, type SQL, sql } from 'drizzle-orm'
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

type ShareColumn = 'share_wei' | 'charged_wei' | 'payees'

/**
 * Shares in groups that are no rows yet, of one node or of all, without what the view makes of each: it cuts each hash out of its group. Groups in which the
 * node has no share are left out before their arrays are opened, and arrays that are opened in a list of columns take half the time.
 */
function groupedShares(columns: readonly ShareColumn[], since: SQL, nodeId: string | null): SQL {
  const opened = sql.raw(['payout_ids', 'node_ids', ...columns].map((of) => `unnest(${of}) as ${of}`).join())
  const [inGroups, ofNode] =
    nodeId === null ? [sql`true`, sql`true`] : [sql`${nodeId} = any (node_ids)`, sql`u.node_ids = ${nodeId}`]
  return sql`(select ${opened} from charge_groups where not shares_moved and created_at >= ${since} and ${inGroups}) u
    where u.payout_ids is not null and ${ofNode}`
}

/** By status; of one node, or of all. What was rejected counts nowhere. */
export async function settlementGroups(
  db: Database,
  since: Date,
  nodeId: string | null = null,
): Promise<readonly SettlementGroup[]> {
  const from = sql`${since.toISOString()}::timestamptz`
  const rows = await db.execute<{ status: string; count: number; payout: string; gross: string }>(sql`
    select status, sum(count)::int as count, sum(payout)::text as payout, sum(gross)::text as gross from (
      select settlement_status as status, count(*) as count, sum(amount_wei) as payout, sum(gross_wei) as gross from ${payoutRows}
      where settlement_status <> 'void' and created_at >= ${from}
        and ${nodeId === null ? sql`true` : sql`node_id = ${nodeId}`}
      group by settlement_status
      union all
      select 'pending', count(*), sum(share_wei), sum(charged_wei) from ${groupedShares(['share_wei', 'charged_wei'], from, nodeId)}) parts
    where count > 0 group by status order by status`)
  return rows.map(({ status, count, payout, gross }) => ({
    settlementStatus: status as OpenSettlementStatus,
    payoutCount: count,
    payoutWei: BigInt(payout),
    grossWei: BigInt(gross),
  }))
}

/** Whether something that the node earned while it had no address waits for the first address that it gets (§31). */
export async function hasUnnamedEarnings(db: Database, nodeId: NodeId): Promise<boolean> {
  const [row] = await db.execute<{ found: boolean }>(sql`select
    exists (select 1 from ${payoutRows} where node_id = ${nodeId} and settlement_status = 'pending' and earned_payee is null)
    or exists (select 1 from ${groupedShares(['payees'], sql`'-infinity'`, nodeId)} and u.payees is null) as found`)
  return row?.found === true
}

/**
 * The newest groups in which the node has a share that is no row yet, as many as shares are wanted: no other is opened. They are looked through by time
 * (`offset 0`): the planner takes a node for rare, and would read and sort all groups.
 */
async function newestGroupsOf(db: Database, nodeId: string, since: Date, limit: number): Promise<readonly bigint[]> {
  const rows = await db.execute<{ seq: string }>(sql`
    select g.last_seq::text as seq from (
      select last_seq, node_ids, payout_ids from charge_groups
      where not shares_moved and created_at >= ${since.toISOString()}::timestamptz order by created_at desc offset 0) g
    where ${nodeId} = any (g.node_ids) and exists (select 1 from unnest(g.payout_ids, g.node_ids) u (payout_id, node_id)
      where u.payout_id is not null and u.node_id = ${nodeId})
    limit ${limit}`)
  return rows.map(({ seq }) => BigInt(seq))
}

/** Newest first. */
export async function nodePayouts(
  db: Database,
  nodeId: string,
  since: Date,
  limit: number,
): Promise<readonly PayoutRow[]> {
  const groups = await newestGroupsOf(db, nodeId, since, limit)
  const isRow = isNull(payouts.groupLastSeq)
  return db
    .select()
    .from(payouts)
    .where(
      and(
        eq(payouts.nodeId, nodeId as NodeId),
        ne(payouts.settlementStatus, 'void'),
        gte(payouts.createdAt, since),
        groups.length === 0 ? isRow : or(isRow, inArray(payouts.groupLastSeq, groups)),
      ),
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
