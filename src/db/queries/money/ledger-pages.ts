import { and, desc, eq, getViewSelectedFields, gte, lt, type SQL, sql } from 'drizzle-orm'
import { alias, type PgColumn } from 'drizzle-orm/pg-core'
import type { CustomerId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { ledgerRows } from '../../schema/ledger.ts'
import { ledgerEntries } from '../../schema/partitioned/charges.ts'
import { type ChargedFacts, chargedFacts } from './charged-facts.ts'
import type { LedgerEntry } from './ledger.ts'

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
const refundOf = alias(ledgerRows, 'refund_of')
const isRefundOf = (receiptHash: PgColumn) =>
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
