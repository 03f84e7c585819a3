import { sql } from 'drizzle-orm'
import { failureName } from '../log.ts'
import { columnsOf, columnTexts, type Row } from './arrays.ts'
import type { OpenDatabase } from './client.ts'
import { copyRows, rowsOfLines } from './copy.ts'
import { type Executor, prepared } from './prepared.ts'

export interface NewLines {
  /** The table and its columns, as COPY has them. */
  readonly target: string
  /** A function of ours that takes the same columns and does what is to be done where a row is there already. */
  readonly insert: string
  /** Whole lines of `copyLine`. They stay as they are until they are written. */
  readonly pieces: readonly Uint8Array[]
  readonly count: number
}

/** COPY needs a transaction of its own, which fewer rows do not earn back. */
const copiedFrom = 32
const uniqueViolation = '23505'

/**
 * All rows or none. A large group goes by COPY, which costs the server a third less than the function and takes no row that is
 * there already: then the function has the group.
 */
export async function insertLines(
  { sql: client }: Pick<OpenDatabase, 'sql'>,
  { target, insert, pieces, count }: NewLines,
): Promise<void> {
  const byFunction = () => insertColumns(prepared(client), insert, rowsOfLines(Buffer.concat(pieces).toString()))
  if (count < copiedFrom) return byFunction()
  try {
    await copyRows(client, target, pieces)
  } catch (error) {
    if (failureName(error) !== uniqueViolation) throw error
    await byFunction()
  }
}

/** Rows by the function alone, in whatever transaction `db` is. */
export async function insertColumns(db: Executor, insert: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  await db.execute(sql`select ${sql.raw(insert)}(${columnsOf(columnTexts(rows))})`)
}
