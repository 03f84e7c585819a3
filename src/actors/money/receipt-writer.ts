import type { OpenDatabase } from '../../db/client.ts'
import { insertReceipts, type NewReceipt } from '../../db/queries/money/receipts.ts'
import type { Log } from '../../log.ts'
import { GroupWriter } from '../durable/group-writer.ts'

export type { NewReceipt } from '../../db/queries/money/receipts.ts'

/**
 * Receipts of free work, off the path of the first byte (§14): a crash loses at most the last
 * SVC_RECEIPT_FLUSH_MS. Those of billed work go with their debit, through the ledger.
 */
export type ReceiptWriter = GroupWriter<NewReceipt>

export interface ReceiptWriterOptions extends Pick<OpenDatabase, 'sql'> {
  /** SVC_RECEIPT_FLUSH_MS. */
  readonly flushMs: number
  readonly log: Log
  /** How many receipts may wait for the database. */
  readonly queueMax?: number
}

/** Lasts about 100 s without the database at 1,000 requests a second, and needs about 60 MB. */
const queueMaxDefault = 100_000

export function createReceiptWriter({
  sql,
  flushMs,
  log,
  queueMax = queueMaxDefault,
}: ReceiptWriterOptions): ReceiptWriter {
  const insert = (receipts: readonly NewReceipt[]) => insertReceipts({ sql }, receipts)
  return new GroupWriter({ name: 'receipts', log, insert, gatherMs: flushMs, queueMax })
}
