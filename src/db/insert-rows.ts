import { sql } from 'drizzle-orm'
import { failureName } from '../log.ts'
import { columnsOf, columnTexts, type Row } from './arrays.ts'
import type { OpenDatabase } from './client.ts'
import { copyRows, copyText } from './copy.ts'
import { type Executor, prepared } from './prepared.ts'

export interface NewRows {
  /** The table and its columns, as COPY has them. */
  readonly target: string
  /** A function of ours that takes the same columns and does what is to be done where a row is there already. */
  readonly insert: string
  readonly rows: readonly Row[]
}

/** COPY needs a transaction of its own, which fewer rows do not earn back. */
const copiedFrom = 32
const uniqueViolation = '23505'

/**
 * All rows or none. A large group goes by COPY, which costs the server a third less than the function and takes no row that is
 * there already: then the function has the group.
 */
export async function insertRows(
  { sql: client }: Pick<OpenDatabase, 'sql'>,
  { target, insert, rows }: NewRows,
): Promise<void> {
  const few = prepared(client)
  if (rows.length < copiedFrom) return insertColumns(few, insert, rows)
  try {
    await copyRows(client, target, copyText(rows))
  } catch (error) {
    if (failureName(error) !== uniqueViolation) throw error
    await insertColumns(few, insert, rows)
  }
}

/** The same by the function, in whatever transaction `db` is. */
export async function insertColumns(db: Executor, insert: string, rows: readonly Row[]): Promise<void> {
  if (rows.length === 0) return
  await db.execute(sql`select ${sql.raw(insert)}(${columnsOf(columnTexts(rows))})`)
}
