import type { OpenDatabase } from '../../db/client.ts'
import { insertReceiptLines, type NewReceipt, receiptLine } from '../../db/queries/money/receipts.ts'
import type { Log } from '../../log.ts'
import { GroupWriter } from '../durable/group-writer.ts'
import { LineStore } from './line-store.ts'

export type { NewReceipt } from '../../db/queries/money/receipts.ts'

export interface ReceiptWriterOptions extends Pick<OpenDatabase, 'sql'> {
  /** SVC_RECEIPT_FLUSH_MS. */
  readonly flushMs: number
  readonly log: Log
  /** How many receipts may wait for the database. */
  readonly queueMax?: number
}

/** Lasts about 100 s without the database at 1,000 requests a second, and needs about 50 MB. */
const queueMaxDefault = 100_000
/** A COPY of many costs the database less for each. */
const batchMax = 4_000

/**
 * Receipts of free work, off the path of the first byte (§14): a crash loses at most the last
 * SVC_RECEIPT_FLUSH_MS. Those of billed work go with their debit, through the ledger. What waits are lines of COPY.
 */
export class ReceiptWriter {
  private readonly lines = new LineStore()
  /** Of the numbers of lines, each one more than the one before. */
  private readonly writer: GroupWriter<number>
  /** Statements under way: one that took too long may still be, while its lines are sent again. */
  private sending = 0

  constructor({ sql, flushMs, log, queueMax = queueMaxDefault }: ReceiptWriterOptions) {
    this.writer = new GroupWriter({
      name: 'receipts',
      log,
      insert: (numbers: readonly number[]) => this.insert(sql, numbers),
      settled: (numbers) => this.lines.leave(numbers.at(-1) ?? 0, this.sending > 0),
      gatherMs: flushMs,
      queueMax,
      batchMax,
    })
  }

  /** Never waits. If the queue is full, the receipt is dropped and counted. */
  write(receipt: NewReceipt): void {
    if (this.writer.hasRoom()) this.writer.enter(this.lines.add(receiptLine(receipt)))
  }

  flush(): Promise<void> {
    return this.writer.flush()
  }

  stop(): Promise<void> {
    return this.writer.stop()
  }

  written(): number {
    return this.writer.written()
  }

  dropped(): number {
    return this.writer.dropped()
  }

  private async insert(sql: OpenDatabase['sql'], numbers: readonly number[]): Promise<void> {
    const [first = 0] = numbers
    const last = numbers.at(-1) ?? first
    this.sending++
    try {
      await insertReceiptLines({ sql }, { pieces: this.lines.bytes(first, last), count: numbers.length })
    } finally {
      this.sending--
    }
  }
}
