import { type SQL, sql } from 'drizzle-orm'
import { isoMs } from '../../../time.ts'
import { type ArrayValue, arrayText, columnsOf, type Row } from '../../arrays.ts'
import type { OpenDatabase } from '../../client.ts'
import { copyNull, copyValue, rowsOfLines } from '../../copy.ts'
import { insertGroups } from '../../insert-groups.ts'
import type { NewReceipt } from './receipts.ts'

/** More make a receipt cheaper to write, and dearer to read as one of its group: both by little from here. */
export const groupReceiptsMax = 250

/** Places of a line: a hash, and behind it the columns of `receipt_groups` behind `shared`, in their order. */
const hashPlace = 0
const firstColumn = 1
const columnPlaces = 16
/** RFC 3339 in a line, Unix ms in the database. */
const timePlaces: ReadonlySet<number> = new Set([14, 15])
const hexPrefix = 2

/**
 * A receipt that never changes, as the line of a group; null: it is paid for, held, bound, or has another one beside it, and is written
 * as a row. Made on the path of every answer; read with many others, off it.
 */
export function groupLine(receipt: NewReceipt): string | null {
  const { facts } = receipt
  const other = receipt.nodeReceipt ?? receipt.status ?? facts?.clientNonce ?? null
  if (facts === undefined || other !== null || receipt.billed === true) return null
  return [
    receipt.hash,
    copyValue(receipt.customerId),
    receipt.signature ?? copyNull,
    facts.issuer,
    facts.requestId,
    facts.jobId === null ? copyNull : copyValue(facts.jobId),
    facts.kind,
    facts.nodeId,
    copyValue(facts.nodeClass),
    facts.runtimeId,
    facts.runtimeKind,
    copyValue(facts.modelId),
    facts.promptTokens,
    facts.completionTokens,
    facts.startedAt,
    facts.completedAt,
    facts.issuedAt == null
      ? `${copyNull}\n`
      : `${facts.issuedAt === facts.completedAt ? 0 : isoMs(facts.issuedAt) - isoMs(facts.completedAt)}\n`,
  ].join('\t')
}

function columnOf(rows: readonly Row[], place: number): readonly ArrayValue[] {
  const values = rows.map((row) => row[place] ?? null)
  return timePlaces.has(place) ? values.map((value) => isoMs(String(value))) : values
}

/** The mark of a group, of the hex of its hashes and its customers' ids: it is written whole or not at all. */
export type MarkGroup = (hashes: string, customerIds: readonly string[]) => string

/** A call that writes the receipts of these lines as one group. */
function insertOf(lines: string, mark: MarkGroup): SQL {
  const rows = rowsOfLines(lines)
  const shared: ArrayValue[] = []
  const texts: string[] = []
  for (let place = firstColumn; place < firstColumn + columnPlaces; place++) {
    const values = columnOf(rows, place)
    const [first = null] = values
    const one = values.every((value) => value === first)
    shared.push(one && first !== null ? String(first) : null)
    texts.push(one ? '' : arrayText(values))
  }
  const hashes = rows.map((row) => String(row[hashPlace]).slice(hexPrefix)).join('')
  return sql`receipt_group_insert(${rows.length}::integer, ${`\\x${hashes}`}::text, ${arrayText(shared)}::text, ${columnsOf(texts)}, ${mark(hashes, columnOf(rows, firstColumn).map(String))}::text)`
}

/** Each text is the lines of one group. All or none; a group that is there already, by its first receipt, stays as it is. */
export const insertReceiptGroups = (
  { sql: client }: Pick<OpenDatabase, 'sql'>,
  groups: readonly string[],
  mark: MarkGroup,
): Promise<void> =>
  insertGroups(
    client,
    groups.map((lines) => insertOf(lines, mark)),
  )
