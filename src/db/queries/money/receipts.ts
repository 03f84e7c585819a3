import { eq, getTableColumns, sql } from 'drizzle-orm'
import { columnsOf, columnTexts } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { nodes } from '../../schema/pool.ts'
import { receipts } from '../../schema/work.ts'

export type ReceiptRow = typeof receipts.$inferSelect

/** One receipt as it was hashed, and what is kept beside it. */
export interface NewReceipt {
  /** `0x` and 64 hex digits. */
  readonly hash: string
  /** `receiptText`: the very JSON that was hashed; it goes to the database as it is. */
  readonly text: string
  readonly customerId: string
  /** Of the node that issued it. */
  readonly signature?: string
  /** What the node signed instead, where the gateway issued this one (§31): JSON. */
  readonly nodeReceipt?: string
  readonly status?: 'accepted' | 'held'
  /** Paid for; its debit is written in the same transaction. */
  readonly billed?: boolean
}

/** The members of a receipt's text, of either version (§14, §31). */
type Facts = Readonly<Record<(typeof factColumns)[number], string | number | null | undefined>>

const factColumns = [
  'issuer',
  'request_id',
  'job_id',
  'kind',
  'node_id',
  'node_class',
  'runtime_id',
  'runtime_kind',
  'model_id',
  'prompt_tokens',
  'completion_tokens',
  'started_at',
  'completed_at',
  'client_nonce',
  'request_commitment',
  'response_commitment',
  'upstream_model_commitment',
] as const

/** What `receipts_insert_columns` takes. */
export function receiptColumns(rows: readonly NewReceipt[]): readonly string[] {
  const facts = rows.map(({ text }) => JSON.parse(text) as Facts)
  return columnTexts([
    rows.map(({ hash }) => hash),
    rows.map(({ customerId }) => customerId),
    rows.map(({ signature }) => signature ?? null),
    rows.map(({ status }) => status ?? 'accepted'),
    rows.map(({ billed }) => billed === true),
    rows.map(({ nodeReceipt }) => nodeReceipt ?? null),
    ...factColumns.map((name) => facts.map((members) => members[name] ?? null)),
  ])
}

/** One statement for all; a receipt that is there already stays as it is. */
export async function insertReceipts(db: Database, rows: readonly NewReceipt[]): Promise<void> {
  if (rows.length === 0) return
  await db.execute(sql`select receipts_insert_columns(${columnsOf(receiptColumns(rows))})`)
}

/** With the key of its node, also of one that was revoked since: what it signed stays signed. null: no such receipt. */
export async function getReceipt(
  db: Database,
  hash: string,
): Promise<(ReceiptRow & { readonly identityKey: Buffer | null }) | null> {
  const [row] = await db
    .select({ ...getTableColumns(receipts), identityKey: nodes.identityKey })
    .from(receipts)
    .leftJoin(nodes, eq(nodes.nodeId, receipts.nodeId))
    .where(eq(receipts.receiptHash, hash))
  return row ?? null
}
