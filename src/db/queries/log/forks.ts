import { desc, eq } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { logEntries, logForks } from '../../schema/log.ts'

/** An entry of the kind `fork`. */
export interface ForkRow {
  readonly entryIndex: number
  /** The name under which the log went on. */
  readonly origin: string
  readonly lostNote: string
}

/** The most forks of one log that are read or written. */
export const forksMax = 64

export async function insertFork(tx: Database, entryIndex: number, lostNote: string): Promise<void> {
  await tx.insert(logForks).values({ entryIndex, lostNote })
}

/** Newest first. A fork that an earlier version has named has no row: only its operator has the checkpoint that was lost. */
export async function readForks(db: Database): Promise<readonly ForkRow[]> {
  const rows = await db
    .select({ entryIndex: logForks.entryIndex, origin: logEntries.subject, lostNote: logForks.lostNote })
    .from(logForks)
    .innerJoin(logEntries, eq(logEntries.entryIndex, logForks.entryIndex))
    .orderBy(desc(logForks.entryIndex))
    .limit(forksMax)
  return rows.flatMap(({ origin, ...row }) => (origin === null ? [] : [{ ...row, origin }]))
}
