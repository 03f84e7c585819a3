import { pipeline } from 'node:stream/promises'
import type { Sql, TransactionSql } from 'postgres'
import type { ArrayValue, Row } from './arrays.ts'

const special = /[\\\n\r\t]/g
const escapes: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }
const hasSpecial = /[\\\n\r\t]/
export const copyNull = '\\N'

/** A text in the text format of COPY (PostgreSQL's manual on COPY, "Text Format"). */
export const copyValue = (text: string): string =>
  hasSpecial.test(text) ? text.replace(special, (found) => escapes[found] ?? found) : text

function valueText(value: ArrayValue): string {
  if (typeof value === 'string') return copyValue(value)
  return value === null ? copyNull : String(value)
}

/** A row in that format, with its end. */
export const copyLine = (row: Row): string => `${row.map(valueText).join('\t')}\n`

const unescaped: Readonly<Record<string, string>> = Object.fromEntries(
  Object.entries(escapes).map(([character, written]) => [written, character]),
)
const escaped = /\\[\\nrt]/g

const valueOfText = (text: string) => {
  if (text === copyNull) return null
  return text.includes('\\') ? text.replace(escaped, (written) => unescaped[written] ?? written) : text
}

/** The rows of lines that `copyLine` has written, each value as text. */
export const rowsOfLines = (lines: string): readonly Row[] =>
  lines
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split('\t').map(valueOfText))

/** Lines one behind the other; a piece may end within one. */
export type CopyPieces = readonly (string | Uint8Array)[]

/**
 * Writes rows of COPY's text format where the statement says. Rejects with the server's error; where the source fails,
 * with the source's, and the server keeps none of the rows. Nothing else may use the connection meanwhile.
 */
export async function copyIn(
  sql: TransactionSql,
  statement: string,
  rows: AsyncIterable<Uint8Array> | CopyPieces,
): Promise<void> {
  await pipeline(rows, await sql.unsafe(statement).writable())
}

/** A transaction of their own for rows that come in COPY's text format. */
export async function copyRows(sql: Sql, target: string, pieces: CopyPieces): Promise<void> {
  await sql.begin((transaction) => copyIn(transaction, `copy ${target} from stdin`, pieces))
}
