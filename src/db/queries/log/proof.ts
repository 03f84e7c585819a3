import { asc, eq, getViewSelectedFields, sql } from 'drizzle-orm'
import {
  type ApprovalRule,
  type ApprovedKind,
  approvalRule,
  approvedKinds,
  kindOf,
  type OwnRule,
} from '../../../protocol/money/kinds.ts'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { logEntries } from '../../schema/log.ts'
import { receipts } from '../../schema/partitioned/receipts.ts'
import { nodes } from '../../schema/pool.ts'
import { receiptStep, receiptsWithin } from '../money/receipt-ranges.ts'
import { priceRules } from './charged-prices.ts'
import { stateRules } from './row-states.ts'

/** A row that breaks a rule, by the rule's name. */
interface FaultyRow {
  readonly rule: RowStatement
  readonly subject: string
}

/** The most rows that are named for one rule. */
const faultsMax = 100

const [debit, refund] = [kindText('debit'), kindText('refund')]

/**
 * What belongs to one receipt, put together by its hash and not by joins: of what stands in groups the planner knows so little that it compares
 * each with each.
 */
const payoutsAndReceipts = `(
  select receipt_hash, entry_id, node_id as paid_node, settlement_status = 'void' as void, held, null as node, null::boolean as receipt_held
    from payouts
  union all select receipt_hash, null, null, null, null, node_id, status = 'held' from receipts where billed) m`
const debitsAndReceipts = `(
  select receipt_hash, entry_id, customer_id as payer, null as owner from ledger_entries where kind = ${debit}
  union all select receipt_hash, null, null, customer_id from receipts where billed) m`

/** Statements that name the rows that break a rule; each is one look at everything. */
const general = {
  'every receipt in the log is there': `
    select e.hash as subject from log_entries e
    where e.kind = 'receipt' and not exists (select 1 from receipt_rows r where r.receipt_hash = e.hash)
    union all
    select 'entry ' || l.first_index || ' and later' from log_receipts l
    where l.entries <> (select count(*) from receipts_within(l.from_seq, l.to_seq))`,
  'every receipt is in the log': `
    select r.receipt_hash as subject
    from log_state s cross join receipts r
      left join lateral (select from_seq from log_receipts where to_seq >= r.seq order by to_seq limit 1) l on true
    where r.seq <= s.receipts_to and (l.from_seq is null or l.from_seq >= r.seq)
      and not exists (select 1 from log_entries e where e.hash = r.receipt_hash)`,
  'every receipt is there once': `
    select receipt_hash as subject from receipts group by receipt_hash having count(*) > 1`,
  'every payout is for the node of its receipt': `
    select max(m.entry_id) as subject from ${payoutsAndReceipts} group by m.receipt_hash
    having min(m.paid_node) <> max(m.node) or max(m.paid_node) <> max(m.node)`,
  'every payee is the one of its earning': `
    select p.entry_id as subject from payouts p where p.earned_payee is not null and p.payee is distinct from p.earned_payee`,
  // A charge that was under way when the node stated another one has the one before: at most a minute. What was earned without one, as after the
  // node had been deleted, is right when a batch pays it so.
  'every payee is the one that its node stated': `
    select p.entry_id as subject from payouts p
    cross join lateral (select s.payee from payee_statements s
      where s.node_id = p.node_id and s.created_at <= p.created_at order by s.signed_at desc limit 1) now
    left join lateral (select s.payee from payee_statements s
      where s.node_id = p.node_id and s.created_at <= p.created_at - interval '1 minute' order by s.signed_at desc limit 1) before on true
    cross join lateral (select lower(coalesce(p.earned_payee, p.payee)) as payee) given
    where given.payee is distinct from now.payee
      and (given.payee is distinct from before.payee and (before.payee is not null
        or p.created_at - interval '1 minute' > (select min(s.created_at) from payee_statements s where s.node_id = p.node_id)))`,
  // A rejected one keeps its mark, and is not paid.
  'every payout is on hold as its receipt is': `
    select max(m.entry_id) as subject from ${payoutsAndReceipts} group by m.receipt_hash
    having bool_or(m.held) filter (where not m.void) <> bool_or(m.receipt_held)
      or bool_and(m.held) filter (where not m.void) <> bool_or(m.receipt_held)`,
  'every payout on hold was so when it was earned': `
    select p.entry_id as subject from payouts p where p.held and not p.earned_held`,
  // The mark says when it was issued. While the database is away its writer waits.
  'every receipt was written when it was issued': `
    select r.subject from (
      select receipt_hash as subject, created_at, mac from receipt_rows
      union all select '0x' || encode(first_hash, 'hex'), created_at, mac from receipt_groups where billed) r
    where r.mac is not null and r.created_at not between
      to_timestamp(split_part(r.mac, '.', 2)::bigint / 1000.0) - interval '10 minutes'
      and to_timestamp(split_part(r.mac, '.', 2)::bigint / 1000.0) + interval '1 day'`,
  'every reservation has settled what was debited': `
    select r.reservation_id as subject from reservations r
    left join ledger_entries l on l.kind = ${debit} and l.reservation_id = r.reservation_id
    where r.settled_wei is distinct from case when r.status <> 'open' then coalesce(l.amount_wei, 0) end
      or (r.status = 'settled') <> (l.entry_id is not null)`,
  // What no index says of groups of charges (docs/decisions/0035), and what their constraints do.
  'every entry of a reservation is there once': `
    select min(entry_id) as subject from ledger_entries where reservation_id is not null
    group by reservation_id, kind having count(*) > 1`,
  'every group of charges adds up': `
    select g.group_id as subject from charge_groups g
    where g.charged_total <> g.shares_total + g.fees_total or not charge_group_adds_up(g)`,
  'every share of a group is the payout that was made of it': `
    select s.entry_id as subject from charge_shares s left join payout_rows p on p.receipt_hash = s.receipt_hash
    where s.shares_moved and (p.entry_id, p.node_id, p.kind, p.amount_wei, p.gross_wei, p.created_at) is distinct from
        (s.entry_id, s.node_id, s.kind, s.amount_wei, s.gross_wei, s.created_at)
      or s.shares_moved and (p.earned_payee is distinct from s.earned_payee or p.held or p.earned_held) or not s.shares_moved and p.entry_id is not null`,
  'every batch is the sum of its payouts': `
    select b.batch_id as subject from payout_batches b
    left join (select batch_id, count(*) as payouts, sum(amount_wei) as amount from payouts group by batch_id) p
      on p.batch_id = b.batch_id
    where b.payout_count <> coalesce(p.payouts, 0) or b.total_amount_wei <> coalesce(p.amount, 0)`,
} as const

/** Of the rules that kinds of entries have as their own. */
const ofKinds: Readonly<Record<OwnRule, string>> = {
  'every debit has its billed receipt': `
    select max(m.entry_id) as subject from ${debitsAndReceipts} group by m.receipt_hash
    having max(m.entry_id) is not null and (max(m.owner) is null or min(m.payer) <> max(m.owner) or max(m.payer) <> min(m.owner))`,
  'every billed receipt has its debit': `
    select m.receipt_hash as subject from ${debitsAndReceipts} group by m.receipt_hash
    having max(m.owner) is not null and max(m.entry_id) is null`,
  'every debit is its payout, its fee and its refund': `
    select max(m.entry_id) as subject from (
      select receipt_hash, entry_id, amount_wei as debit, 0 as parts, null::numeric as gross from ledger_entries where kind = ${debit}
      union all select receipt_hash, null, 0, amount_wei, null from ledger_entries where kind = ${refund}
      union all select receipt_hash, null, 0, amount_wei, null from protocol_fees where status <> 'refunded'
      union all select receipt_hash, null, 0, case when settlement_status <> 'void' then amount_wei else 0 end, gross_wei from payouts) m
    group by m.receipt_hash
    having max(m.entry_id) is not null
      and (sum(m.debit) <> sum(m.parts) or min(m.gross) <> sum(m.debit) or max(m.gross) <> sum(m.debit))`,
  'every payout and fee has its debit': `
    select m.entry_id as subject
    from (select entry_id, receipt_hash from payouts union all select entry_id, receipt_hash from protocol_fees) m
    where not exists (select 1 from ledger_entries l where l.kind = ${debit} and l.receipt_hash = m.receipt_hash)`,
  'every refund is the debit of a rejected receipt': `
    select b.entry_id as subject from ledger_entries b
    left join receipt_rows r on r.receipt_hash = b.receipt_hash and r.status = 'rejected' and r.customer_id = b.customer_id
    left join ledger_entries l on l.kind = ${debit} and l.reservation_id = b.reservation_id
      and l.receipt_hash = b.receipt_hash and l.customer_id = b.customer_id and l.amount_wei = b.amount_wei and l.seq < b.seq
    where b.kind = ${refund} and (r.receipt_hash is null or l.entry_id is null)`,
  // Fees that a version without refunds kept were marked when this one came.
  'every rejected receipt was given back': `
    select r.receipt_hash as subject from receipt_rows r
    where r.status = 'rejected'
      and not exists (select 1 from ledger_entries b where b.kind = ${refund} and b.receipt_hash = r.receipt_hash)
      and not exists (select 1 from protocol_fees f where f.receipt_hash = r.receipt_hash and f.status = 'kept')`,
}

/** Events of a purge are gone: only what came after the last one is asked about. A minute lies between the two clocks. */
function approvalStatement(kind: ApprovedKind): string {
  const { refersTo, action } = kindOf(kind)
  const target = refersTo.includes('receipt') ? 'receipt_hash' : 'customer_id'
  return `
    with since as (select coalesce(max(cutoff), '-infinity') as at from audit_purge_runs),
      made as (select ${target} as target, amount_wei::text as amount, count(*) as entries from ledger_entries, since
        where kind = ${kindText(kind)} and created_at >= since.at + interval '1 minute' group by 1, 2),
      events as (select target_id, metadata->>'amount_wei' as amount, count(*) as events from admin_approval_events, since
        where action = '${action}' and created_at >= since.at group by 1, 2)
    select m.target as subject from made m left join events e on e.target_id = m.target and e.amount = m.amount
    where m.entries > coalesce(e.events, 0)`
}
const approvals = Object.fromEntries(
  approvedKinds.map((kind) => [approvalRule(kind), approvalStatement(kind)]),
) as Readonly<Record<ApprovalRule, string>>

const statements = { ...general, ...ofKinds, ...approvals, ...stateRules, ...priceRules }
type RowStatement = keyof typeof statements

export async function rowFaults(db: Database): Promise<readonly FaultyRow[]> {
  const faults: FaultyRow[] = []
  for (const [rule, statement] of Object.entries(statements) as readonly (readonly [RowStatement, string])[]) {
    const rows = await db.execute<{ subject: string }>(sql.raw(`${statement} limit ${faultsMax}`))
    faults.push(...rows.map(({ subject }) => ({ rule, subject })))
  }
  return faults
}

/** All of one moment, as long as it takes. */
export async function holdForAudit(tx: Database): Promise<void> {
  await tx.execute(sql`set transaction isolation level repeatable read read only`)
  await tx.execute(sql`set local statement_timeout = '10min'`)
}

/** All receipts, in the order of their seq, about this number at once. */
export async function* allReceipts(db: Database, atOnce: number) {
  for (let from = 0n; ; ) {
    const to = await receiptStep(db, from, atOnce)
    if (to === null) return
    yield await receiptsOf(db, from, to)
    from = to
  }
}

export type CheckedReceipt = Awaited<ReturnType<typeof receiptsOf>>[number]

function receiptsOf(db: Database, from: bigint, to: bigint) {
  return db
    .select({ receipt: getViewSelectedFields(receipts), identityKey: nodes.identityKey })
    .from(receipts)
    .leftJoin(nodes, eq(nodes.nodeId, receipts.nodeId))
    .where(receiptsWithin(from, to))
    .orderBy(asc(receipts.seq))
}

/** Of one kind, in their order, with an index above `after`. */
export async function entriesOfKind(
  db: Database,
  kind: (typeof logEntries.$inferSelect)['kind'],
  after: number,
  limit: number,
) {
  return db
    .select()
    .from(logEntries)
    .where(sql`${logEntries.kind} = ${kind} and ${logEntries.entryIndex} > ${after}`)
    .orderBy(asc(logEntries.entryIndex))
    .limit(limit)
}

/** Those of these hashes that the log holds. */
export async function loggedHashes(db: Database, hashes: readonly string[]): Promise<ReadonlySet<string>> {
  if (hashes.length === 0) return new Set()
  const rows = await db.execute<{ hash: string }>(sql`select hash from log_entries
    where hash in (select json_array_elements_text(${JSON.stringify(hashes)}::text::json))`)
  return new Set(rows.map(({ hash }) => hash))
}

/** Batches that the log holds, with what their rows say now; null: the row is gone. */
export async function loggedBatches(db: Database) {
  return db.execute<{
    hash: string
    batchId: string
    merkleRoot: string | null
    payoutCount: number | null
    totalAmountWei: string | null
  }>(sql`select e.hash, e.subject as "batchId", b.merkle_root as "merkleRoot", b.payout_count as "payoutCount",
      b.total_amount_wei::text as "totalAmountWei"
    from log_entries e left join payout_batches b on b.batch_id = e.subject where e.kind = 'batch' order by e.entry_index`)
}

/** Settlements that the log holds, with what their rows say now; null: the row is gone, or says nothing. */
export async function loggedSettlements(db: Database) {
  return db.execute<{
    hash: string
    batchId: string
    txHash: string | null
    blockNumber: string | null
    blockHash: string | null
  }>(sql`select e.hash, e.subject as "batchId", b.submitted_tx_hash as "txHash", b.settlement_block_number as "blockNumber",
      b.settlement_block_hash as "blockHash"
    from log_entries e left join payout_batches b on b.batch_id = e.subject where e.kind = 'settled' order by e.entry_index`)
}
