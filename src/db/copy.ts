import { pipeline } from 'node:stream/promises'
import type { Sql, TransactionSql } from 'postgres'
import type { ArrayValue, Row } from './arrays.ts'

const special = /[\\\n\r\t]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const hasSpecial = /[\\\n\r\t]/

function valueText(value: ArrayValue): string {
  if (typeof value !== 'string') return value === null ? '\\N' : String(value)
  return hasSpecial.test(value) ? value.replace(special, (found) => escapes[found] ?? found) : value
}

/** Rows in the text format of COPY (PostgreSQL's manual on COPY, "Text Format"). */
export const copyText = (rows: readonly Row[]): string =>
  rows.map((row) => `${row.map(valueText).join('\t')}\n`).join('')

/**
 * Writes rows of COPY's text format where the statement says. Rejects with the server's error; where the source fails,
 * with the source's, and the server keeps none of the rows. Nothing else may use the connection meanwhile.
 */
export async function copyIn(
  sql: TransactionSql,
  statement: string,
  rows: AsyncIterable<Uint8Array> | readonly string[],
): Promise<void> {
  await pipeline(rows, await sql.unsafe(statement).writable())
}

/** A transaction of their own for rows that come in COPY's text format. */
export async function copyRows(sql: Sql, target: string, text: string): Promise<void> {
  await sql.begin((transaction) => copyIn(transaction, `copy ${target} from stdin`, [text]))
}
