import { and, eq, getViewSelectedFields } from 'drizzle-orm'
import { timedReceiptVersion } from '../../../brand.ts'
import type { Receipt } from '../../../protocol/receipts/receipt.ts'
import { isoTime } from '../../../time.ts'
import { columnTexts, type Row } from '../../arrays.ts'
import type { Database, OpenDatabase } from '../../client.ts'
import { copyLine } from '../../copy.ts'
import { insertColumns, insertLines, type NewLines } from '../../insert-rows.ts'
import { receipts } from '../../schema/partitioned/receipts.ts'
import { nodes } from '../../schema/pool.ts'
import { receiptVersions } from '../../schema/work.ts'
import { groupOf } from './receipt-ranges.ts'

export type ReceiptRow = typeof receipts.$inferSelect

/** One receipt as it was hashed, and what is kept beside it. */
export interface NewReceipt {
  /** `0x` and 64 hex digits. */
  readonly hash: string
  /** `receiptText`: the very JSON that was hashed; it goes to the database as it is. */
  readonly text: string
  readonly customerId: string
  /** Of the node that issued it. */
  readonly signature?: string | undefined
  /** What the node signed instead, where the gateway issued this one (§31): JSON. */
  readonly nodeReceipt?: string | undefined
  readonly status?: 'accepted' | 'held' | undefined
  /** Paid for; its debit is written in the same transaction. */
  readonly billed?: boolean
  /** What `text` says, where that need not be read again. */
  readonly facts?: Receipt | undefined
}

/** With the mark of the process that issued it, without which the log takes no receipt (§36). */
export interface MarkedReceipt extends NewReceipt {
  readonly mac: string
  /** Of what is billed: the prices of its quote, with their mark. */
  readonly price?: string | undefined
}

/** The members of a receipt's text, of any version (§14, §31, §36). */
type Facts = Readonly<Record<(typeof factColumns)[number] | typeof timeName, string | number | null | undefined>>

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
const ownNames = ['receipt_hash', 'customer_id', 'signature_ed25519', 'status', 'billed', 'node_receipt']

/** Behind the mark, and the price behind it, since gateways of versions before send fewer columns. */
const timeName = 'issued_at'

const columnNames = [...ownNames, ...factColumns, 'mac', timeName, 'price'].join(', ')
const insert = 'receipts_insert_columns'

function valuesOf({ hash, customerId, signature, status, billed, nodeReceipt, text, mac, price }: MarkedReceipt): Row {
  const facts = JSON.parse(text) as Facts
  const own = [hash, customerId, signature ?? null, status ?? 'accepted', billed === true, nodeReceipt ?? null]
  return [...own, ...factColumns.map((name) => facts[name] ?? null), mac, facts[timeName] ?? null, price ?? null]
}

/** What `receipts_insert_columns` takes. */
export const receiptColumns = (rows: readonly MarkedReceipt[]): readonly string[] => columnTexts(rows.map(valuesOf))

/** As a line of COPY. */
export const receiptLine = (receipt: MarkedReceipt): string => copyLine(valuesOf(receipt))

const camel = (name: string) => name.replace(/_(.)/g, (_, letter: string) => letter.toUpperCase())
const factNames = ([...factColumns, timeName] as const).map((name) => [name, camel(name)] as const)

/** What a receipt's own text says. */
export function factsOfText(text: string): Receipt {
  const facts = JSON.parse(text) as Facts
  return Object.fromEntries(factNames.map(([name, fact]) => [fact, facts[name] ?? null])) as unknown as Receipt
}

/** The facts as they were hashed. */
export const factsOfRow = (row: Omit<ReceiptRow, 'mac'>): Receipt => ({
  ...row,
  startedAt: isoTime(row.startedAt),
  completedAt: isoTime(row.completedAt),
  issuedAt: row.issuedAt === null ? null : isoTime(row.issuedAt),
})

/** Those lines one behind the other: all or none; a receipt that is there already stays as it is. */
export const insertReceiptLines = (
  database: Pick<OpenDatabase, 'sql'>,
  lines: Pick<NewLines, 'pieces' | 'count'>,
): Promise<void> => insertLines(database, { ...lines, target: `receipt_rows (${columnNames})`, insert })

/** From when gateways issue receipts v3, or write those of charges in groups (`grouped-charges`). */
export async function receiptsIssuedFrom(
  db: Database,
  version: typeof timedReceiptVersion | 'grouped-charges' = timedReceiptVersion,
): Promise<Date> {
  const [row] = await db
    .select({ issuedFrom: receiptVersions.issuedFrom })
    .from(receiptVersions)
    .where(eq(receiptVersions.version, version))
  if (row === undefined) throw new Error(`The database does not say from when receipts ${version} are issued`)
  return row.issuedFrom
}

/** One receipt with what else happens in the transaction. */
export const insertReceipt = (tx: Database, row: MarkedReceipt): Promise<void> =>
  insertColumns(tx, insert, [valuesOf(row)])

/** With the key of its node, also of one that was revoked since: what it signed stays signed. null: no such receipt. */
export async function getReceipt(
  db: Database,
  hash: string,
): Promise<(ReceiptRow & { readonly identityKey: Buffer | null }) | null> {
  const [row] = await db
    .select({ ...getViewSelectedFields(receipts), identityKey: nodes.identityKey })
    .from(receipts)
    .leftJoin(nodes, eq(nodes.nodeId, receipts.nodeId))
    .where(and(eq(receipts.receiptHash, hash), eq(receipts.groupLastSeq, groupOf(hash))))
  return row ?? null
}
