import { desc, eq, getTableColumns } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { logEntries, logForks } from '../../schema/log.ts'

/** An entry of the kind `fork`. */
export interface ForkRow {
  readonly entryIndex: number
  /** The name under which the log went on. */
  readonly origin: string
  readonly lostNote: string
  /** The name of the witness for which it was written; null: an operator has named the fork, or a version before wrote it. */
  readonly witness: string | null
  /** The customer whose agent that witness was; null also where a version before wrote it. */
  readonly owner: string | null
}

/** The most forks of one log that are read or written. */
export const forksMax = 64

export async function insertFork(tx: Database, row: Omit<ForkRow, 'origin'>): Promise<void> {
  await tx.insert(logForks).values(row)
}

/** Newest first. A fork that an earlier version has named has no row: only its operator has the checkpoint that was lost. */
export async function readForks(db: Database): Promise<readonly ForkRow[]> {
  const rows = await db
    .select({ ...getTableColumns(logForks), origin: logEntries.subject })
    .from(logForks)
    .innerJoin(logEntries, eq(logEntries.entryIndex, logForks.entryIndex))
    .orderBy(desc(logForks.entryIndex))
    .limit(forksMax)
  return rows.flatMap(({ origin, ...row }) => (origin === null ? [] : [{ ...row, origin }]))
}
