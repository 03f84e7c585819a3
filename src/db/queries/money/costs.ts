import { and, count, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { customers } from '../../schema/accounts.ts'
import { ledgerEntries } from '../../schema/ledger.ts'
import { requestRecords } from '../../schema/partitioned/request-records.ts'
import { receipts } from '../../schema/work.ts'

/** What was debited, put together; `name` where an id has one. */
export interface Cost {
  readonly key: string | null
  readonly name: string | null
  readonly count: number
  readonly amountWei: string
  readonly promptTokens: string
  readonly completionTokens: string
}

export interface CostRange {
  readonly from: Date
  readonly to: Date
}

const none = sql<string | null>`null`

/** By what the ledger and its receipts say, which are kept for ever. */
const ofLedger = {
  customer: { key: sql<string>`${ledgerEntries.customerId}`, name: sql<string | null>`min(${customers.displayName})` },
  model: { key: sql<string | null>`${receipts.modelId}`, name: none },
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
      promptTokens: sql<string>`coalesce(sum(${receipts.promptTokens}), 0)::text`,
      completionTokens: sql<string>`coalesce(sum(${receipts.completionTokens}), 0)::text`,
    })
    .from(ledgerEntries)
    .leftJoin(receipts, eq(receipts.receiptHash, ledgerEntries.receiptHash))
    .leftJoin(customers, eq(customers.customerId, ledgerEntries.customerId))
    .where(and(eq(ledgerEntries.kind, 'debit'), gte(ledgerEntries.createdAt, from), lt(ledgerEntries.createdAt, to)))
    .groupBy(sql`1`)
    .orderBy(by === 'month' ? sql`1` : desc(sql`sum(${ledgerEntries.amountWei})`), sql`1`)
    .limit(limit)
}

/** The ledger knows no keys: by the records of requests, as long as they are kept. */
export async function keyCosts(db: Database, { from, to }: CostRange, limit: number): Promise<readonly Cost[]> {
  return db
    .select({
      key: requestRecords.keyId,
      name: none,
      count: count(),
      amountWei: sql<string>`sum(${requestRecords.costWei})::text`,
      promptTokens: sql<string>`coalesce(sum(${requestRecords.promptTokens}), 0)::text`,
      completionTokens: sql<string>`coalesce(sum(${requestRecords.completionTokens}), 0)::text`,
    })
    .from(requestRecords)
    .where(and(gte(requestRecords.at, from), lt(requestRecords.at, to), sql`${requestRecords.costWei} > 0`))
    .groupBy(requestRecords.keyId)
    .orderBy(desc(sql`sum(${requestRecords.costWei})`))
    .limit(limit)
}
