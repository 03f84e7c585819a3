import { and, desc, eq, getViewSelectedFields, gte, lt, type SQL, sql } from 'drizzle-orm'
import { alias, type PgColumn } from 'drizzle-orm/pg-core'
import type { CustomerId } from '../../../ids.ts'
import type { OperatorKind } from '../../../protocol/money/kinds.ts'
import { balanceAccounts, changeOf } from '../../../protocol/money/moves.ts'
import type { WorkKind } from '../../../protocol/wire/work-kinds.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import type { Executor } from '../../prepared.ts'
import { customers } from '../../schema/accounts.ts'
import { ledgerRows } from '../../schema/ledger.ts'
import { ledgerEntries } from '../../schema/partitioned/charges.ts'
import { type ChargedFacts, chargedFacts } from './charged-facts.ts'
import { type MarkedReceipt, receiptColumns } from './receipts.ts'

export type LedgerEntry = typeof ledgerRows.$inferSelect

/** From so many charges of one customer in a commit on they are one row: fewer are as cheap as rows, and dearer to read in groups. */
export const groupFromDefault = 4

export interface ReserveRow {
  readonly id: string
  readonly customer: string
  readonly amountWei: bigint
  readonly entry: string
  readonly job: string | null
}
export type ReserveOutcome = 'reserved' | 'insufficient' | 'conflict' | 'no_customer'

export interface SettleRow {
  readonly id: string
  /** 0 releases the reservation. */
  readonly chargedWei: bigint
  readonly shareWei: bigint
  readonly feeWei: bigint
  readonly receiptHash: string | null
  readonly node: string | null
  readonly kind: WorkKind | null
  readonly held: boolean
  /** Ids of the rows that may be written. */
  readonly debit: string
  readonly release: string
  readonly payout: string
  readonly fee: string
}
export type SettleOutcome = 'settled' | 'closed' | 'unknown'

/** The unusual answers, by position from 1. */
type Exceptions<O> = readonly { readonly place: number; readonly outcome: O }[]

const texts = (values: readonly (string | null)[]) => arrayOf('text', values)
const amounts = (values: readonly bigint[]) => arrayOf('numeric', values)
const flags = (values: readonly boolean[]) => arrayOf('boolean', values)

export function inOrder<O>(count: number, usual: O, answer: unknown): readonly O[] {
  const outcomes = new Array<O>(count).fill(usual)
  for (const { place, outcome } of answer as Exceptions<O>) outcomes[place - 1] = outcome
  return outcomes
}

/**
 * One statement, one commit for all, which is on the disk a moment later (at most 0.6 s), or with the next commit that waits
 * for it: of a crash in between the charge hears `unknown`. Ids must differ.
 */
export async function reserveAll(
  db: Executor,
  rows: readonly ReserveRow[],
  ttlMs: number,
): Promise<readonly ReserveOutcome[]> {
  const answer =
    await db.execute(sql`select place, outcome from set_config('synchronous_commit', 'off', true), ledger_reserve(
    ${texts(rows.map(({ id }) => id))}, ${texts(rows.map(({ customer }) => customer))},
    ${amounts(rows.map(({ amountWei }) => amountWei))}, ${texts(rows.map(({ entry }) => entry))},
    ${texts(rows.map(({ job }) => job))}, ${ttlMs}::bigint)`)
  return inOrder<ReserveOutcome>(rows.length, 'reserved', answer)
}

/** One statement and one commit for all charges with their receipts. Ids must differ. `groupFrom`: as `groupFromDefault`. */
export async function settleAll(
  db: Executor,
  rows: readonly SettleRow[],
  receipts: readonly MarkedReceipt[] = [],
  groupFrom: number = groupFromDefault,
): Promise<readonly SettleOutcome[]> {
  const written = receipts.length === 0 ? null : JSON.stringify(receiptColumns(receipts))
  const answer = await db.execute(sql`select place, outcome from ledger_charge(
    ${texts(rows.map(({ id }) => id))}, ${amounts(rows.map(({ chargedWei }) => chargedWei))},
    ${amounts(rows.map(({ shareWei }) => shareWei))}, ${amounts(rows.map(({ feeWei }) => feeWei))},
    ${texts(rows.map(({ receiptHash }) => receiptHash))}, ${texts(rows.map(({ node }) => node))},
    ${texts(rows.map(({ kind }) => kind))}, ${flags(rows.map(({ held }) => held))},
    ${texts(rows.map(({ debit }) => debit))}, ${texts(rows.map(({ release }) => release))},
    ${texts(rows.map(({ payout }) => payout))}, ${texts(rows.map(({ fee }) => fee))}, ${written}::text::json, ${groupFrom}::int)`)
  return inOrder<SettleOutcome>(rows.length, 'settled', answer)
}

/** Renews reservations whose work still runs. It waits for none that is being closed: such a one needs no more time. */
export async function renewReservations(db: Database, ids: readonly string[], ttlMs: number): Promise<void> {
  if (ids.length === 0) return
  await db.execute(sql`update reservations o set expires_at = clock_timestamp() + ${ttlMs}::bigint * interval '1 ms'
    from (select r.reservation_id as id from json_array_elements_text(${JSON.stringify(ids)}::text::json) as q (id)
      join reservations r on r.reservation_id = q.id and r.settled_wei is null for update of r skip locked) as q
    where o.reservation_id = q.id`)
}

/** Open reservations without a renewal, oldest first. */
export async function staleReservations(db: Database, limit: number): Promise<readonly string[]> {
  const rows = await db.execute(sql`select reservation_id as id from reservations
    where status = 'open' and expires_at < clock_timestamp() order by expires_at limit ${limit}`)
  return (rows as unknown as readonly { id: string }[]).map(({ id }) => id)
}

/** One that an operator made; the id of others is not known before. */
export async function ledgerEntry(db: Database, entryId: string): Promise<LedgerEntry | null> {
  const [row] = await db.select().from(ledgerRows).where(eq(ledgerRows.entryId, entryId))
  return row ?? null
}

/**
 * Before an entry's seq is drawn: by this lock the log knows who may still commit a smaller one (`readFence`). It is the view's, which
 * gateways of the version before know.
 */
export async function lockLedger(tx: Database): Promise<void> {
  await tx.execute(sql`lock table ledger_entries in row exclusive mode`)
}

/**
 * What an operator adds to a balance or takes from it. Call it with the customer's row locked. Fails with 23514 if the balance would
 * not be a uint256, or not cover what is reserved.
 */
export async function insertOperatorEntry(
  tx: Database,
  entry: Pick<LedgerEntry, 'entryId' | 'amountWei' | 'reason'> & {
    readonly kind: OperatorKind
    readonly customerId: string
  },
): Promise<LedgerEntry> {
  const customerId = entry.customerId as CustomerId
  const change = entry.amountWei * BigInt(changeOf(entry.kind, balanceAccounts))
  const [after] = await tx
    .update(customers)
    .set({ balanceWei: sql`${customers.balanceWei} + ${change.toString()}::numeric` })
    .where(eq(customers.customerId, customerId))
    .returning({ balanceAfterWei: customers.balanceWei, reservedAfterWei: customers.reservedWei })
  if (after === undefined) throw new Error('a balance was not changed')
  await lockLedger(tx)
  const [row] = await tx
    .insert(ledgerRows)
    .values({ ...entry, ...after, customerId, createdAt: sql`clock_timestamp()` })
    .returning()
  if (row === undefined) throw new Error('an entry was not inserted')
  return row
}

export interface KindTotal {
  readonly kind: LedgerEntry['kind']
  readonly count: number
  readonly amountWei: bigint
}

/** A customer's ledger from one moment to another; `to` null: to its end. */
export interface LedgerRange {
  readonly customerId: string
  readonly from: Date
  readonly to: Date | null
}

const inRange = (
  { customerId, from, to }: LedgerRange,
  of: Pick<typeof ledgerEntries | typeof ledgerRows, 'customerId' | 'createdAt'> = ledgerEntries,
) =>
  and(
    eq(of.customerId, customerId as CustomerId),
    gte(of.createdAt, from),
    ...(to === null ? [] : [lt(of.createdAt, to)]),
  )

export async function ledgerTotals(db: Database, range: LedgerRange): Promise<readonly KindTotal[]> {
  const totals = await db
    .select({
      kind: ledgerEntries.kind,
      count: sql<number>`count(*)::int`,
      amount: sql<string>`sum(${ledgerEntries.amountWei})::text`,
    })
    .from(ledgerEntries)
    .where(inRange(range))
    .groupBy(ledgerEntries.kind)
    .orderBy(ledgerEntries.kind)
  return totals.map(({ amount, ...total }) => ({ ...total, amountWei: BigInt(amount) }))
}

const { groupFirstSeq: _first, groupLastSeq: _last, ...entryFields } = getViewSelectedFields(ledgerEntries)

/** A group's numbers lie closer together than this: the constraint `charge_groups_whole`. */
const chargeSeqsMax = 1_000_000n
const seqMax = 2n ** 63n - 1n

/** Behind every group that has an entry up to this one, whatever number somebody claims. */
export function groupsEnd(seq: bigint): SQL {
  const end = seq + chargeSeqsMax
  return sql`${(end < seqMax ? end : seqMax).toString()}::bigint`
}

/**
 * Of the entries of a range those behind `after`, with groups left out that a page of so many does not reach: the newest groups before
 * `after` that have as many charges together. A customer's groups do not overlap.
 */
function onPage({ customerId, from, to }: LedgerRange, after: bigint | null, limit: number): SQL {
  const before = after === null ? sql`true` : sql`g.last_seq < ${after.toString()}::bigint`
  const until = to === null ? sql`true` : sql`g.created_at < ${to.toISOString()}::timestamptz`
  const floor = sql`coalesce((select n.first_seq from (
      select g.first_seq, g.last_seq, sum(g.rows) over (order by g.last_seq desc) as charges from charge_groups g
      where g.customer_id = ${customerId} and ${before} and g.created_at >= ${from.toISOString()}::timestamptz and ${until}
      order by g.last_seq desc limit ${limit}) n
    where n.charges >= ${limit} order by n.last_seq desc limit 1), 0)`
  const reached = sql`${ledgerEntries.groupLastSeq} >= ${floor}`
  if (after === null) return reached
  const end = sql`${after.toString()}::bigint`
  return sql`${reached} and ${ledgerEntries.seq} < ${end} and ${ledgerEntries.groupFirstSeq} < ${end}
    and ${ledgerEntries.groupLastSeq} < ${groupsEnd(after)}`
}

/** Newest first, from behind the entry of place `after` (§13). */
export async function ledgerPage(
  db: Database,
  range: LedgerRange,
  after: bigint | null,
  limit: number,
): Promise<readonly LedgerEntry[]> {
  return db
    .select(entryFields)
    .from(ledgerEntries)
    .where(and(inRange(range), onPage(range, after, limit)))
    .orderBy(desc(ledgerEntries.seq))
    .limit(limit)
}

/** What was given back of a debit, beside it. Neither a refund nor a debit that was given back is part of a group. */
export const refundOf = alias(ledgerRows, 'refund_of')
export const isRefundOf = (receiptHash: PgColumn) =>
  and(sql`${refundOf.kind} = ${sql.raw(kindText('refund'))}`, eq(refundOf.receiptHash, receiptHash))

const refundedWei = sql<string>`coalesce(${refundOf.amountWei}, 0)::text`

/** What was given back of the debits of a range. */
export async function refundedTotal(db: Database, range: LedgerRange): Promise<string> {
  const [row] = await db
    .select({ wei: sql<string>`coalesce(sum(${refundOf.amountWei}), 0)::text` })
    .from(ledgerRows)
    .innerJoin(refundOf, isRefundOf(ledgerRows.receiptHash))
    .where(and(inRange(range, ledgerRows), eq(ledgerRows.kind, 'debit')))
  return row?.wei ?? '0'
}

/** One billed request or job. */
export interface InvoiceLine {
  readonly seq: bigint
  readonly createdAt: Date
  readonly entryId: string
  /** Of the request as its client knows it, or of the job. */
  readonly workId: string | null
  readonly amountWei: bigint
  /** Given back since: nothing, or all of it. */
  readonly refundedWei: string
  readonly receiptHash: string | null
  readonly kind: string | null
  readonly modelId: string | null
  readonly promptTokens: number | null
  readonly completionTokens: number | null
}

/** What was charged, with what it was charged for, newest first. */
export async function invoicePage(
  db: Database,
  range: LedgerRange,
  after: bigint | null,
  limit: number,
): Promise<readonly InvoiceLine[]> {
  const debits = await db
    .select({
      seq: ledgerEntries.seq,
      createdAt: ledgerEntries.createdAt,
      entryId: ledgerEntries.entryId,
      workId: ledgerEntries.reservationId,
      amountWei: ledgerEntries.amountWei,
      refundedWei,
      receiptHash: ledgerEntries.receiptHash,
    })
    .from(ledgerEntries)
    .leftJoin(refundOf, isRefundOf(ledgerEntries.receiptHash))
    .where(and(inRange(range), eq(ledgerEntries.kind, 'debit'), onPage(range, after, limit)))
    .orderBy(desc(ledgerEntries.seq))
    .limit(limit)
  const facts = await chargedFacts(db, debits)
  return debits.map((debit) => ({ ...debit, ...factsOfLine(facts.get(debit.receiptHash ?? '')) }))
}

const factsOfLine = (facts: ChargedFacts | undefined) => ({
  kind: facts?.kind ?? null,
  modelId: facts?.modelId ?? null,
  promptTokens: facts?.promptTokens ?? null,
  completionTokens: facts?.completionTokens ?? null,
})
