import { and, count, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { kindText } from '../../kind-texts.ts'
import { customers } from '../../schema/accounts.ts'
import { ledgerEntries } from '../../schema/partitioned/charges.ts'
import { receipts } from '../../schema/partitioned/receipts.ts'
import { receiptRows } from '../../schema/work.ts'
import { tagsBetween } from '../requests/request-groups.ts'
import { isRefundOf, refundOf } from './ledger-pages.ts'

/** What was debited, put together; `name` where an id has one. */
export interface Cost {
  readonly key: string | null
  readonly name: string | null
  readonly count: number
  readonly amountWei: string
  /** Of this, what was given back since. */
  readonly refundedWei: string
  readonly promptTokens: string
  readonly completionTokens: string
}

export interface CostRange {
  readonly from: Date
  readonly to: Date
}

const none = sql<string | null>`null`

/** Of the receipt of a debit, which is a row, or in a group of the same moment. */
const said = {
  modelId: sql`coalesce(${receiptRows.modelId}, ${receipts.modelId})`,
  promptTokens: sql`coalesce(${receiptRows.promptTokens}, ${receipts.promptTokens})`,
  completionTokens: sql`coalesce(${receiptRows.completionTokens}, ${receipts.completionTokens})`,
} as const

/** By what the ledger and its receipts say, which are kept for ever. */
const ofLedger = {
  customer: { key: sql<string>`${ledgerEntries.customerId}`, name: sql<string | null>`min(${customers.displayName})` },
  model: { key: sql<string | null>`${said.modelId}`, name: none },
  month: { key: sql<string>`to_char(${ledgerEntries.createdAt} at time zone 'UTC', 'YYYY-MM')`, name: none },
} as const satisfies Record<string, { readonly key: SQL<unknown>; readonly name: SQL<string | null> }>

export type LedgerGrouping = keyof typeof ofLedger

/** The dearest first, and months in their order. */
export async function ledgerCosts(
  db: Database,
  by: LedgerGrouping,
  { from, to }: CostRange,
  limit: number,
): Promise<readonly Cost[]> {
  const { key, name } = ofLedger[by]
  const amount = sql<string>`sum(${ledgerEntries.amountWei})::text`
  return db
    .select({
      key,
      name,
      count: count(),
      amountWei: amount,
      refundedWei: sql<string>`coalesce(sum(${refundOf.amountWei}), 0)::text`,
      promptTokens: sql<string>`coalesce(sum(${said.promptTokens}), 0)::text`,
      completionTokens: sql<string>`coalesce(sum(${said.completionTokens}), 0)::text`,
    })
    .from(ledgerEntries)
    .leftJoin(receiptRows, eq(receiptRows.receiptHash, ledgerEntries.receiptHash))
    .leftJoin(
      receipts,
      and(
        eq(receipts.billed, true),
        eq(receipts.receiptHash, ledgerEntries.receiptHash),
        gte(receipts.createdAt, from),
        lt(receipts.createdAt, to),
      ),
    )
    .leftJoin(customers, eq(customers.customerId, ledgerEntries.customerId))
    .leftJoin(refundOf, isRefundOf(ledgerEntries.receiptHash))
    .where(and(eq(ledgerEntries.kind, 'debit'), gte(ledgerEntries.createdAt, from), lt(ledgerEntries.createdAt, to)))
    .groupBy(sql`1`)
    .orderBy(by === 'month' ? sql`1` : desc(sql`sum(${ledgerEntries.amountWei})`), sql`1`)
    .limit(limit)
}

/** What a request's record says that the ledger does not: the key, and each of its tags. */
const ofRecords = {
  key: { column: sql`g.key_id`, shared: sql`g.shared[4]`, each: sql`select r.said` },
  tag: {
    column: sql`g.tags`,
    shared: sql`g.shared[23]`,
    each: sql`select unnest(string_to_array(r.said, ${tagsBetween}))`,
  },
} as const satisfies Record<string, { readonly column: SQL; readonly shared: SQL; readonly each: SQL }>

export type RecordGrouping = keyof typeof ofRecords

/** By the records of requests, as long as they are kept. */
export async function recordCosts(
  db: Database,
  by: RecordGrouping,
  { from, to }: CostRange,
  limit: number,
): Promise<readonly Cost[]> {
  const { column, shared, each } = ofRecords[by]
  const [first, end] = [from.toISOString(), to.toISOString()]
  const rows = await db.execute<
    { key: string | null; count: string } & Record<'amount' | 'refunded' | 'prompt' | 'completion', string>
  >(sql`
    select k.key, count(*) as count, sum(r.cost)::text as amount, coalesce(sum(b.amount_wei), 0)::text as refunded, coalesce(sum(r.prompt), 0)::text as prompt,
      coalesce(sum(r.completion), 0)::text as completion
    from request_groups g,
      unnest(g.at_ms, ${column}, g.cost_wei, g.prompt_tokens, g.completion_tokens, g.receipt_hash)
        as e (at_ms, said, cost, prompt, completion, receipt),
      lateral (select g.minute + e.at_ms * interval '1 millisecond' as at, coalesce(e.said, ${shared}) as said,
        coalesce(e.cost, g.shared[20]::numeric) as cost, coalesce(e.prompt, g.shared[15]::integer) as prompt,
        coalesce(e.completion, g.shared[16]::integer) as completion, coalesce(e.receipt, g.shared[21]) as receipt) r
      cross join lateral (${each}) k (key)
      left join ledger_rows b on b.kind = ${sql.raw(kindText('refund'))} and b.receipt_hash = r.receipt
    where g.minute >= date_trunc('minute', ${first}::timestamptz) and g.minute < ${end}::timestamptz
      and (g.cost_wei is not null or g.shared[20] is not null)
      and r.at >= ${first}::timestamptz and r.at < ${end}::timestamptz and r.cost > 0
    group by k.key order by sum(r.cost) desc, k.key limit ${limit}`)
  return rows.map(({ key, count: found, amount, refunded, prompt, completion }) => ({
    key,
    name: null,
    count: Number(found),
    amountWei: amount,
    refundedWei: refunded,
    promptTokens: prompt,
    completionTokens: completion,
  }))
}
