import { and, asc, desc, eq, getTableColumns, lte, or, sql } from 'drizzle-orm'
import { failureName } from '../../../log.ts'
import type { TilePlace } from '../../../protocol/log/tiles.ts'
import type { Database } from '../../client.ts'
import { logCheckpoints, logCosignatures, logEntries, logState, logTiles } from '../../schema/log.ts'
import { receiptRows } from '../../schema/work.ts'
import { groupOf } from '../money/receipt-ranges.ts'

/** `byGroups`: parts of the ledger have the form that only versions since then know. */
export type LogState = Omit<typeof logState.$inferSelect, 'groupsFrom'> & { readonly byGroups: boolean }
export type LogEntryRow = typeof logEntries.$inferSelect
export type NewLogEntry = typeof logEntries.$inferInsert
export interface LogTile extends TilePlace {
  readonly hashes: Uint8Array
}

const theLog = 1
/** Of 100,000 checkpoints the oldest is a day and more old; older roots follow from the tiles. */
const checkpointsKept = 100_000

/** One gateway sequences at a time, until its transaction ends; false: another one does. */
export async function lockSequencer(tx: Database): Promise<boolean> {
  const [row] = await tx.execute<{ held: boolean }>(sql`select pg_try_advisory_xact_lock(7413, 80) as held`)
  return row?.held === true
}

/** A turn of a log that leads on takes less. */
const sequencerWaitMs = 5_000
const lockNotAvailable = '55P03'

/** As `lockSequencer`, after the turn that another one is at: of it at most 5 s. */
export async function waitForSequencer(tx: Database): Promise<boolean> {
  try {
    // In a savepoint: after a wait that failed the transaction still takes statements.
    await tx.transaction(async (wait) => {
      await wait.execute(sql`select set_config('lock_timeout', ${String(sequencerWaitMs)}, true)`)
      await wait.execute(sql`select pg_advisory_xact_lock(7413, 80)`)
      await wait.execute(sql`select set_config('lock_timeout', '0', true)`)
    })
    return true
  } catch (error) {
    if (failureName(error) !== lockNotAvailable) throw error
    return false
  }
}

/** Sessions that are at a turn of the log. */
export async function sequencingPids(db: Database): Promise<readonly number[]> {
  const rows = await db.execute<{ pid: number }>(sql`select pid from pg_locks
    where locktype = 'advisory' and classid = 7413 and objid = 80 and granted
      and database = (select oid from pg_database where datname = current_database())`)
  return rows.map(({ pid }) => pid)
}

export async function readLogState(db: Database): Promise<LogState | null> {
  const { groupsFrom, ...columns } = getTableColumns(logState)
  const byGroups = sql<boolean>`${groupsFrom} <= now()`
  const [row] = await db
    .select({ ...columns, byGroups })
    .from(logState)
    .where(eq(logState.logId, theLog))
  return row ?? null
}

/** Whether anything was ever put into a log. */
export async function hasLog(db: Database): Promise<boolean> {
  const [row] = await db.execute<{ held: boolean }>(sql`select exists (select 1 from log_entries)
    or exists (select 1 from log_receipts) or exists (select 1 from log_checkpoints) as held`)
  return row?.held === true
}

/** The first start's; what is there stays. */
export async function insertLogState(db: Database, origin: string, root: Uint8Array): Promise<void> {
  const row = {
    logId: theLog,
    origin,
    size: 0,
    root: Buffer.from(root),
    receiptsTo: 0n,
    ledgerTo: 0n,
    groupsFrom: sql`now()`,
  }
  await db.insert(logState).values(row).onConflictDoNothing()
}

export async function saveLogState(
  tx: Database,
  state: Omit<LogState, 'logId' | 'byGroups' | 'updatedAt'>,
): Promise<void> {
  await tx
    .update(logState)
    .set({ ...state, updatedAt: sql`now()` })
    .where(eq(logState.logId, theLog))
}

export async function insertLogEntries(tx: Database, entries: readonly NewLogEntry[]): Promise<void> {
  if (entries.length === 0) return
  const rows = entries.map((row) => ({
    entry_index: row.entryIndex,
    kind: row.kind,
    hash: row.hash,
    subject: row.subject ?? null,
    from_seq: row.fromSeq?.toString() ?? null,
    to_seq: row.toSeq?.toString() ?? null,
  }))
  await tx.execute(sql`insert into log_entries (entry_index, kind, hash, subject, from_seq, to_seq)
    select * from json_to_recordset(${JSON.stringify(rows)}::text::json) as r (entry_index bigint, kind text, hash text,
      subject text, from_seq bigint, to_seq bigint)`)
}

/** In the order of `places`; null where there is none. */
export async function readTiles(db: Database, places: readonly TilePlace[]): Promise<readonly (Uint8Array | null)[]> {
  if (places.length === 0) return []
  const wanted = places.map(({ level, index }) => and(eq(logTiles.level, level), eq(logTiles.tileIndex, index)))
  const rows = await db
    .select()
    .from(logTiles)
    .where(or(...wanted))
  const found = new Map(rows.map((row) => [`${row.level}/${row.tileIndex}`, row.hashes]))
  return places.map(({ level, index }) => found.get(`${level}/${index}`) ?? null)
}

export async function saveTiles(tx: Database, tiles: readonly LogTile[]): Promise<void> {
  if (tiles.length === 0) return
  await tx
    .insert(logTiles)
    .values(tiles.map(({ level, index, hashes }) => ({ level, tileIndex: index, hashes: Buffer.from(hashes) })))
    .onConflictDoUpdate({ target: [logTiles.level, logTiles.tileIndex], set: { hashes: sql`excluded.hashes` } })
}

export type LoggedEntry = Pick<LogEntryRow, 'entryIndex' | 'kind' | 'hash'>

/** `from` ≤ index < `to`, in their order. */
export async function readLogEntries(db: Database, from: number, to: number): Promise<readonly LoggedEntry[]> {
  // The run in which the first one is may have begun before it.
  const rows = await db.execute<{ entry_index: string; kind: LogEntryRow['kind']; hash: string }>(sql`
    select entry_index::text as entry_index, kind, hash from log_contents
    where first_index >= coalesce((select max(first_index) from log_receipts where first_index <= ${from}), ${from})
      and first_index < ${to} and entry_index >= ${from} and entry_index < ${to}
    order by log_contents.entry_index`)
  return rows.map(({ entry_index: index, kind, hash }) => ({ entryIndex: Number(index), kind, hash }))
}

/** An entry, and of a receipt who issued it; `issuer` null: it is no receipt that is there. */
export interface EntryOfHash {
  readonly index: number
  readonly kind: LogEntryRow['kind']
  readonly issuer: 'node' | 'gateway' | null
  /** Of a receipt, whose version follows from both. */
  readonly clientNonce: string | null
  readonly issuedAt: string | null
  /** What an earlier version has signed. */
  readonly signature: string | null
  /** When it was written; null: a version before that noted it wrote it. */
  readonly takenAt: Date | null
}

async function ownEntryOf(db: Database, hash: string): Promise<EntryOfHash | null> {
  const { entryIndex: index, kind, signatureEd25519: signature } = logEntries
  const { issuer, clientNonce, issuedAt } = receiptRows
  const [row] = await db
    .select({ index, kind, signature, issuer, clientNonce, issuedAt, takenAt: logEntries.createdAt })
    .from(logEntries)
    .leftJoin(receiptRows, and(eq(receiptRows.receiptHash, logEntries.hash), eq(kind, 'receipt')))
    .where(eq(logEntries.hash, hash))
  if (row === undefined) return null
  return { ...row, issuedAt: row.issuedAt?.toISOString() ?? null }
}

async function receiptEntryOf(db: Database, hash: string): Promise<EntryOfHash | null> {
  const [row] = await db.execute<{
    index: string
    issuer: 'node' | 'gateway'
    nonce: string | null
    timed: string | null
    taken: string | null
  }>(sql`
    select (l.first_index + (select count(*) from receipts_within(l.from_seq, r.seq - 1)))::text as index,
      r.issuer, r.client_nonce as nonce, r.issued_at::text as timed,
      floor(extract(epoch from l.taken_at) * 1000)::bigint::text as taken
    from receipts r
    join log_receipts l on l.to_seq = (select min(to_seq) from log_receipts where to_seq >= r.seq) and l.from_seq < r.seq
    where r.receipt_hash = ${hash} and r.group_last_seq = ${groupOf(hash)}`)
  if (row === undefined) return null
  const { issuer, nonce, timed, taken } = row
  return {
    index: Number(row.index),
    kind: 'receipt',
    issuer,
    clientNonce: nonce,
    issuedAt: timed,
    signature: null,
    takenAt: taken === null ? null : new Date(Number(taken)),
  }
}

/** Most who ask have a receipt. */
export const logEntryOf = async (db: Database, hash: string): Promise<EntryOfHash | null> =>
  (await receiptEntryOf(db, hash)) ?? ownEntryOf(db, hash)

export async function saveCheckpoint(tx: Database, origin: string, size: number, note: string): Promise<void> {
  await tx.insert(logCheckpoints).values({ origin, size, note }).onConflictDoNothing()
}

/** The signed note; null: none is kept. */
export async function checkpointAt(db: Database, origin: string, size: number): Promise<string | null> {
  const [row] = await db
    .select({ note: logCheckpoints.note })
    .from(logCheckpoints)
    .where(and(eq(logCheckpoints.origin, origin), eq(logCheckpoints.size, size)))
  return row?.note ?? null
}

/** Looks through all that are kept, so it is for now and then, not for every checkpoint. */
export async function pruneCheckpoints(tx: Database): Promise<void> {
  for (const table of [logCheckpoints, logCosignatures]) {
    const old = tx.select({ size: table.size }).from(table).orderBy(desc(table.size)).limit(1).offset(checkpointsKept)
    await tx.delete(table).where(lte(table.size, sql`(${old})`))
  }
}

export interface CheckpointRow {
  readonly origin: string
  readonly size: number
  readonly note: string
  readonly createdAt: Date
  /** Lines of witnesses. */
  readonly cosignatures: readonly string[]
}

async function withCosignatures(
  db: Database,
  row: Omit<CheckpointRow, 'cosignatures'> | undefined,
): Promise<CheckpointRow | null> {
  if (row === undefined) return null
  const lines = await db
    .select({ line: logCosignatures.line })
    .from(logCosignatures)
    .where(and(eq(logCosignatures.origin, row.origin), eq(logCosignatures.size, row.size)))
    .orderBy(asc(logCosignatures.witness))
  return { ...row, cosignatures: lines.map(({ line }) => line) }
}

const checkpointColumns = {
  origin: logCheckpoints.origin,
  size: logCheckpoints.size,
  note: logCheckpoints.note,
  createdAt: logCheckpoints.createdAt,
}

export async function newestCheckpoint(db: Database): Promise<CheckpointRow | null> {
  const [row] = await db
    .select(checkpointColumns)
    .from(logCheckpoints)
    .innerJoin(logState, eq(logState.origin, logCheckpoints.origin))
    .orderBy(desc(logCheckpoints.size))
    .limit(1)
  return withCosignatures(db, row)
}

export interface NewestCheckpoints {
  readonly newest: CheckpointRow | null
  /** The newest one that a witness has cosigned. */
  readonly cosigned: CheckpointRow | null
}

/** Both in one statement: every proof asks for them. */
export async function newestCheckpoints(db: Database): Promise<NewestCheckpoints> {
  const rows = await db.execute<Omit<CheckpointRow, 'size' | 'createdAt'> & { size: string; createdMs: number }>(sql`
    select c.origin, c.size::text as size, c.note, extract(epoch from c.created_at)::float8 * 1000 as "createdMs",
      coalesce((select json_agg(k.line order by k.witness) from log_cosignatures k
        where k.origin = c.origin and k.size = c.size), '[]') as cosignatures
    from log_state s
    cross join lateral (
      (select size from log_checkpoints where origin = s.origin order by size desc limit 1)
      union
      (select size from log_cosignatures where origin = s.origin order by size desc limit 1)
    ) n
    join log_checkpoints c on c.origin = s.origin and c.size = n.size
    order by c.size desc`)
  const found = rows.map(({ size, createdMs, ...row }) => ({
    ...row,
    size: Number(size),
    createdAt: new Date(createdMs),
  }))
  return { newest: found[0] ?? null, cosigned: found.find(({ cosignatures }) => cosignatures.length > 0) ?? null }
}

export async function saveCosignatures(
  db: Database,
  of: { readonly origin: string; readonly size: number },
  lines: readonly { readonly witness: string; readonly line: string }[],
): Promise<void> {
  if (lines.length === 0) return
  const rows = lines.map(({ witness, line }) => ({ origin: of.origin, size: of.size, witness, line }))
  await db.insert(logCosignatures).values(rows).onConflictDoNothing()
}
