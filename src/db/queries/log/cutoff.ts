import { and, eq, isNotNull, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { inPieces } from '../../cursor.ts'
import { logEntries } from '../../schema/log.ts'

/** What an entry of the kind `cutoff` bounds (docs/protocol.md, "The public log"). */
export interface CutoffRow {
  readonly entryIndex: number
  readonly hash: string
  readonly unsigned: number
  readonly unsignedHash: string
}

const hashesAtOnce = 5_000
/** More than one is a fault, and a hundred are no more of one. */
const cutoffsMax = 100

export const cutoffSubject = ({ unsigned, unsignedHash }: Pick<CutoffRow, 'unsigned' | 'unsignedHash'>): string =>
  `${unsigned}:${unsignedHash}`

const cutoffColumns = { entryIndex: logEntries.entryIndex, hash: logEntries.hash, subject: logEntries.subject }
const isCutoff = eq(logEntries.kind, 'cutoff')

function cutoffRow({ subject, ...row }: { entryIndex: number; hash: string; subject: string | null }): CutoffRow {
  const [unsigned = '', unsignedHash = ''] = (subject ?? '').split(':')
  return { ...row, unsigned: Number(unsigned), unsignedHash }
}

/** In their order; a log has one. Reads every entry, because somebody may have changed what the index has of them. */
export async function readCutoffs(db: Database): Promise<readonly CutoffRow[]> {
  const rows = await db
    .select(cutoffColumns)
    .from(logEntries)
    .where(isCutoff)
    .orderBy(logEntries.entryIndex)
    .limit(cutoffsMax)
  return rows.map(cutoffRow)
}

/** The one of the log, by the index of subjects: customers ask for it with each unsigned receipt. */
export async function findCutoff(db: Database): Promise<CutoffRow | null> {
  const [row] = await db
    .select(cutoffColumns)
    .from(logEntries)
    .where(and(isCutoff, isNotNull(logEntries.subject)))
    .orderBy(logEntries.entryIndex)
    .limit(1)
  return row === undefined ? null : cutoffRow(row)
}

/** Receipts are read one by one, and there may be millions. */
export async function allowTime(tx: Database): Promise<void> {
  await tx.execute(sql`set local statement_timeout = '10min'`)
}

/** A receipt in a node's name without its signature. */
const isUnsigned = sql`r.issuer = 'node' and r.signature_ed25519 is null`

/** Whether the log took the receipt before this entry. Versions before `log_receipts` wrote a row for each. */
const isLoggedBefore = (entryIndex: number): SQL =>
  sql.raw(`(
  exists (select 1 from log_receipts l where l.to_seq = (select min(to_seq) from log_receipts where to_seq >= r.seq)
    and l.from_seq < r.seq and l.first_index < ${entryIndex})
  or exists (select 1 from log_entries e where e.hash = r.receipt_hash and e.kind = 'receipt' and e.entry_index < ${entryIndex}))`)

/** Hashes of unsigned receipts that the log took before this entry, in the order of their letters. Needs a transaction. */
export async function* unsignedBefore(tx: Database, entryIndex: number): AsyncGenerator<readonly string[]> {
  const query = sql`select r.receipt_hash as hash from receipts r where ${isUnsigned} and ${isLoggedBefore(entryIndex)}
    order by r.receipt_hash collate "C"`
  for await (const page of inPieces<{ hash: string }>(tx, query, hashesAtOnce)) yield page.map(({ hash }) => hash)
}

/** Hashes of the other unsigned receipts. */
export async function unsignedSince(tx: Database, entryIndex: number, limit: number): Promise<readonly string[]> {
  const rows = await tx.execute<{ hash: string }>(sql`select r.receipt_hash as hash from receipts r
    where ${isUnsigned} and not ${isLoggedBefore(entryIndex)} order by r.seq limit ${limit}`)
  return rows.map(({ hash }) => hash)
}
