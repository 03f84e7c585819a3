import { inArray, sql } from 'drizzle-orm'
import type { LoggedKind } from '../../../protocol/money/kinds.ts'
import { type LoggedEntry, loggedName } from '../../../protocol/money/logged.ts'
import type { Database } from '../../client.ts'
import { kindTexts } from '../../kind-texts.ts'
import { groupsEnd } from '../money/ledger-pages.ts'
import { newestReceiptSeq, receiptsWithin } from '../money/receipt-ranges.ts'

/** What the log takes in the order of numbers, each from tables of its own. */
export const logSources = ['receipts', 'ledger'] as const
export type LogSource = (typeof logSources)[number]

/** A transaction that writes. `pid`: its session, as `pg_stat_activity` names it; null: a prepared one, which has none. */
export interface Writer {
  readonly id: string
  readonly pid: number | null
}

type Writers = Readonly<Record<LogSource, readonly Writer[]>>

/**
 * Up to where a source may be taken into the log. What was written with a smaller `seq` may still be uncommitted: its transaction had
 * the table's lock before it drew the `seq`, so it is among the writers.
 */
export interface Fence {
  readonly to: bigint
  /** Transactions that were writing. */
  readonly writers: readonly Writer[]
}
export type Fences = Readonly<Record<LogSource, Fence>>

const ofReceipts = sql.raw(`('receipts'::regclass, 'receipt_rows'::regclass, 'receipt_groups'::regclass)`)
const ofLedger = sql.raw(`('ledger_entries'::regclass, 'ledger_rows'::regclass, 'charge_groups'::regclass)`)

/** Transactions that write receipts or ledger now. Of this database alone: what others on the server do does not matter. */
async function writersNow(db: Database): Promise<Writers> {
  const rows = await db.execute<{ id: string; pid: number | null; receipts: boolean; ledger: boolean }>(sql`
    select virtualtransaction as id, max(pid) as pid, bool_or(relation in ${ofReceipts}) as receipts,
      bool_or(relation in ${ofLedger}) as ledger
    from pg_locks
    where locktype = 'relation' and granted and mode = 'RowExclusiveLock'
      and database = (select oid from pg_database where datname = current_database())
      and (relation in ${ofReceipts} or relation in ${ofLedger})
    group by virtualtransaction`)
  const of = (source: LogSource) => rows.filter((row) => row[source]).map(({ id, pid }) => ({ id, pid }))
  return { receipts: of('receipts'), ledger: of('ledger') }
}

export async function readFences(db: Database): Promise<Fences> {
  const [row] = await db.execute<{ receipts: string; ledger: string }>(sql`
    select ${newestReceiptSeq}::text as receipts,
      greatest((select max(seq) from ledger_rows), (select max(last_seq) from charge_groups), 0)::text as ledger`)
  // Only then: a transaction that drew a smaller number and is not among them has committed.
  const writers = await writersNow(db)
  return {
    receipts: { to: BigInt(row?.receipts ?? '0'), writers: writers.receipts },
    ledger: { to: BigInt(row?.ledger ?? '0'), writers: writers.ledger },
  }
}

/** The largest seq of a committed receipt; 0 before the first one. */
export async function newestReceipt(db: Database): Promise<bigint> {
  const [row] = await db.execute<{ seq: string }>(sql`select ${newestReceiptSeq}::text as seq`)
  return BigInt(row?.seq ?? '0')
}

/** Of those who were writing at the fences, the ones that have not ended. */
export async function stillWriting(db: Database, { receipts, ledger }: Fences): Promise<Writers> {
  if (receipts.writers.length + ledger.writers.length === 0) return { receipts: [], ledger: [] }
  const now = await writersNow(db)
  const among = (before: readonly Writer[], those: readonly Writer[]) =>
    before.filter(({ id }) => those.some((one) => one.id === id))
  return { receipts: among(receipts.writers, now.receipts), ledger: among(ledger.writers, now.ledger) }
}

export interface LedgerPart {
  /** seq of its last entry; of the third form, where a group goes on behind it, up to where it was taken. */
  readonly toSeq: bigint
  /** `0x` and the hex SHA-256 over all that its entries and their payouts say, line by line. */
  readonly hash: string
}

const millis = (column: string) => sql.raw(`floor(extract(epoch from ${column}) * 1000)::bigint`)

/** What the lines of a part say. Parts that were logged by versions before have the earlier forms for ever. */
export type PartForm = 1 | 2 | 3
export const partForms: readonly PartForm[] = [3, 2, 1]

/** Since the second form: whether the payout was held when it was earned, and the fee. */
const lateColumns = sql`, l.earned_held, l.fee_id, l.fee_wei::text, ${millis('l.fee_at')}`

/**
 * A line for each entry: every column, and of a debit the payout and the fee that were earned by it. What changes later (where a
 * payout settles) is not in it. A fee is written at the moment of its payout, by which its index finds it.
 */
const lineOf = (form: PartForm) => sql`json_build_array(l.seq, l.entry_id, l.customer_id, l.kind, l.amount_wei::text,
  l.balance_after_wei::text, l.reserved_after_wei::text, l.reservation_id, l.private_job_id, l.receipt_hash, l.reason,
  ${millis('l.created_at')}, l.payout_id, l.payout_node_id, l.payout_kind, l.payout_wei::text, l.payout_gross_wei::text, l.earned_payee,
  ${millis('l.payout_at')}${form === 1 ? sql`` : lateColumns})::text`

/** Of each entry, also of those of groups: as many as `limit`. */
const linesOfEntries = (from: bigint, end: bigint, limit: number, form: PartForm) => sql`
  select l.seq, l.seq as last, ${lineOf(form)} as line
  from ledger_lines l where ${within(from, end)} order by l.seq limit ${limit}`

/** Columns of `charge_groups`, in the order of a line. What changes later (whether its shares have become rows) is not among them. */
const groupColumns = [
  ...'last_seq first_seq group_id customer_id rows charged_total::text shares_total::text fees_total::text'.split(' '),
  ...'debit_seq release_seq reserve_seq reservation_ids debit_ids release_ids reserve_ids payout_ids fee_ids'.split(
    ' ',
  ),
  ...'node_ids kinds payees charged_wei::text[] share_wei::text[] fee_wei::text[] released_wei::text[]'.split(' '),
  ...'balance_after_wei::text[] reserved_after_wei::text[] reserved_at_ms'.split(' '),
].map((column) => `g.${column}`)

/**
 * Since the third form: a line for each entry that is a row, and for each group of charges one, of every group that has an entry between, wherever
 * it ends: a group across the end of a part is in both. Taking groups apart took half of PostgreSQL's time under paid load (docs/decisions/0067).
 */
const linesOfGroups = (from: bigint, end: bigint) => sql`
  select l.seq, l.seq as last, ${lineOf(3)} as line
  from (select l.*, p.entry_id as payout_id, p.node_id as payout_node_id, p.kind as payout_kind, p.amount_wei as payout_wei,
      p.gross_wei as payout_gross_wei, p.earned_payee, p.created_at as payout_at, p.earned_held, f.entry_id as fee_id,
      f.amount_wei as fee_wei, f.created_at as fee_at
    from ledger_rows l left join payout_rows p on l.kind = 'debit' and p.receipt_hash = l.receipt_hash
    left join fee_rows f on f.created_at = p.created_at and f.receipt_hash = p.receipt_hash
    where l.seq > ${from.toString()}::bigint and l.seq <= ${end.toString()}::bigint) l
  union all
  select g.last_seq, least(g.last_seq, ${end.toString()}::bigint), json_build_array(${sql.raw(groupColumns.join(', '))},
    ${millis('g.created_at')}, encode(g.hashes, 'hex'))::text
  from charge_groups g where g.last_seq > ${from.toString()}::bigint and g.first_seq <= ${end.toString()}::bigint
    and g.last_seq < ${groupsEnd(end)}`

/**
 * A number up to which there are at least so many entries behind `from`, or `to`: the entries of groups come in no order that an index has,
 * so that all that is behind `from` would be read for some.
 */
async function reach(db: Database, from: bigint, to: bigint, entries: number): Promise<bigint> {
  if (to - from <= BigInt(entries)) return to
  const after = sql`${from.toString()}::bigint`
  const [row] = await db.execute<{ end: string }>(sql`select least(${to.toString()}::bigint,
    (select seq from ledger_rows where seq > ${after} order by seq offset ${entries - 1} limit 1),
    (select last_seq from (
      select last_seq, sum(rows) over (order by last_seq) as charges from charge_groups
      where last_seq > ${after} and first_seq > ${after} order by last_seq limit ${entries}) g
    where charges >= ${entries} order by last_seq limit 1))::text as end`)
  return BigInt(row?.end ?? to)
}

/** The next entries as one part; null: no entry is left. `limit`: a part of the third form may have more, because it has whole groups. */
export async function ledgerPart(
  db: Database,
  from: bigint,
  to: bigint,
  limit: number,
  form: PartForm,
): Promise<LedgerPart | null> {
  // A group may lie across this place, and no entry is between.
  if (to <= from) return null
  const end = await reach(db, from, to, limit)
  const [row] = await db.execute<{ last: string | null; hash: string }>(sql`
    select max(last)::text as last, encode(sha256(convert_to(string_agg(line, E'\n' order by seq), 'UTF8')), 'hex') as hash
    from (${form === 3 ? linesOfGroups(from, end) : linesOfEntries(from, end, limit, form)}) lines`)
  if (row === undefined || row.last === null) return null
  return { toSeq: BigInt(row.last), hash: `0x${row.hash}` }
}

/** The last of the next `entries` entries; null: no entry is left. */
export async function ledgerSeqWithin(db: Database, from: bigint, to: bigint, entries: number): Promise<bigint | null> {
  const [row] = await db.execute<{ last: string | null }>(sql`
    select max(seq)::text as last from (
      select seq from ledger_entries l where ${within(from, await reach(db, from, to, entries))}
      order by seq limit ${entries}) next`)
  return row?.last == null ? null : BigInt(row.last)
}

/** Entries of the ledger that have one of their own in the log. */
async function loggedEntries(db: Database, where: ReturnType<typeof sql>): Promise<readonly LoggedEntry[]> {
  const rows = await db.execute<Omit<LoggedEntry, 'createdAt'> & { at: string }>(sql`
    select l.kind, l.entry_id as "entryId", l.customer_id as "customerId", l.amount_wei::text as "amountWei", l.reason,
      l.receipt_hash as "receiptHash", ${millis('l.created_at')}::text as at
    from ledger_entries l where ${where}`)
  return rows.map(({ at, ...row }) => ({ ...row, createdAt: new Date(Number(at)) }))
}

const isOneOf = (kinds: readonly LoggedKind[]) => sql.raw(`l.kind in ${kindTexts(kinds)}`)
const within = (from: bigint, to: bigint) =>
  sql`l.seq > ${from.toString()}::bigint and l.seq <= ${to.toString()}::bigint
    and l.group_last_seq > ${from.toString()}::bigint and l.group_first_seq <= ${to.toString()}::bigint
    and l.group_last_seq < ${groupsEnd(to)}`

/** Of a part of the ledger, in its order. */
export const loggedWithin = (
  db: Database,
  kinds: readonly LoggedKind[],
  from: bigint,
  to: bigint,
): Promise<readonly LoggedEntry[]> => loggedEntries(db, sql`${isOneOf(kinds)} and ${within(from, to)} order by l.seq`)

/** Those of one kind that the log lacks, oldest first. */
export const lackingOf = (db: Database, kind: LoggedKind, limit: number): Promise<readonly LoggedEntry[]> =>
  loggedEntries(
    db,
    sql`${isOneOf([kind])} and not exists (select 1 from log_entries e
      where e.kind = ${loggedName(kind)} and e.subject = l.entry_id) order by l.seq limit ${limit}`,
  )

export interface BatchToLog {
  readonly batchId: string
  readonly merkleRoot: string
  readonly payoutCount: number
  readonly totalAmountWei: string
}

/** Batches that the log does not hold, oldest first. */
export async function batchesToLog(db: Database, limit: number): Promise<readonly BatchToLog[]> {
  return db.execute<BatchToLog & Record<string, unknown>>(sql`
    select b.batch_id as "batchId", b.merkle_root as "merkleRoot", b.payout_count as "payoutCount",
      b.total_amount_wei::text as "totalAmountWei"
    from payout_batches b
    where not exists (select 1 from log_entries e where e.kind = 'batch' and e.subject = b.batch_id)
    order by b.created_at, b.batch_id limit ${limit}`)
}

/** Those of these batches that pay for a receipt behind this seq. */
export async function batchesAhead(
  db: Database,
  batches: readonly { readonly batchId: string }[],
  receiptsTo: bigint,
): Promise<ReadonlySet<string>> {
  if (batches.length === 0) return new Set()
  const rows = await db.execute<{ batchId: string }>(sql`
    with later as materialized (
      select receipts.receipt_hash from receipts where ${receiptsWithin(receiptsTo, newestReceiptSeq)})
    select distinct p.batch_id as "batchId" from later join payout_rows p on p.receipt_hash = later.receipt_hash
    where ${inArray(sql`p.batch_id`, [...new Set(batches.map(({ batchId }) => batchId))])}`)
  return new Set(rows.map(({ batchId }) => batchId))
}

export interface SettledToLog {
  readonly batchId: string
  readonly txHash: string
  readonly blockNumber: string
  readonly blockHash: string
}

/** Batches that are final on the chain and whose place there the log does not hold, oldest first. */
export async function settledToLog(db: Database, limit: number): Promise<readonly SettledToLog[]> {
  return db.execute<SettledToLog & Record<string, unknown>>(sql`
    select b.batch_id as "batchId", b.submitted_tx_hash as "txHash", b.settlement_block_number as "blockNumber",
      b.settlement_block_hash as "blockHash"
    from payout_batches b
    where b.status = 'completed' and b.submitted_tx_hash is not null and b.settlement_block_number is not null
      and b.settlement_block_hash is not null
      and not exists (select 1 from log_entries e where e.kind = 'settled' and e.subject = b.batch_id)
    order by b.created_at, b.batch_id limit ${limit}`)
}

export interface HeadToLog {
  readonly writerId: string
  readonly ordinal: number
  readonly seq: number
  readonly mac: string
}

/** Ends of the audit's chains that have moved since the log took them. */
export async function headsToLog(db: Database, limit: number): Promise<readonly HeadToLog[]> {
  const rows = await db.execute<Omit<HeadToLog, 'seq'> & { seq: string }>(sql`
    select c.writer_id as "writerId", c.ordinal, c.seq::text as seq, encode(c.mac, 'hex') as mac
    from audit_chains c
    where not exists (select 1 from log_entries e where e.kind = 'audit' and e.subject = c.writer_id || ':' || c.seq)
    order by c.ordinal limit ${limit}`)
  return rows.map((row) => ({ ...row, seq: Number(row.seq) }))
}
