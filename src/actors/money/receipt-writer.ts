import type { OpenDatabase } from '../../db/client.ts'
import { groupLine, groupReceiptsMax, insertReceiptGroups } from '../../db/queries/money/receipt-groups.ts'
import { insertReceiptLines, type NewReceipt, receiptLine } from '../../db/queries/money/receipts.ts'
import type { Log } from '../../log.ts'
import { GroupWriter } from '../durable/group-writer.ts'
import { groupSubject, type ReceiptMacs, receiptSubject } from '../log/receipt-macs.ts'
import { LineStore } from './line-store.ts'
import { SealedGroups } from './sealed-groups.ts'

export type { NewReceipt } from '../../db/queries/money/receipts.ts'

export interface ReceiptWriterOptions extends Pick<OpenDatabase, 'sql'> {
  /** SVC_RECEIPT_FLUSH_MS. */
  readonly flushMs: number
  readonly log: Log
  readonly macs: ReceiptMacs
  /** How many receipts of each kind may wait for the database. */
  readonly queueMax?: number
}

/** Lasts about 100 s without the database at 1,000 requests a second, and needs about 50 MB. */
const queueMaxDefault = 100_000
/** Many in one statement cost the database less for each. */
const batchMax = 4_000

type Pieces = readonly Buffer[]

/** What waits are lines, not objects: `insert` gets those from `first` to `last`. */
class LineWriter {
  private readonly lines = new LineStore()
  /** Of the numbers of lines, each one more than the one before. */
  readonly writer: GroupWriter<number>
  /** Statements under way: one that took too long may still be, while its lines are sent again. */
  private sending = 0

  constructor(
    { flushMs, log, queueMax = queueMaxDefault }: ReceiptWriterOptions,
    insert: (first: number, last: number, bytes: (first: number, last: number) => Pieces) => Promise<unknown>,
    private readonly settled: (last: number) => void = () => {},
  ) {
    const bytes = (first: number, last: number) => this.lines.bytes(first, last)
    this.writer = new GroupWriter({
      name: 'receipts',
      log,
      insert: (numbers: readonly number[]) => this.counted(() => insert(numbers[0] ?? 0, numbers.at(-1) ?? 0, bytes)),
      settled: (numbers) => this.leave(numbers.at(-1) ?? 0),
      gatherMs: flushMs,
      queueMax,
      batchMax,
    })
  }

  add(line: string): void {
    if (this.writer.hasRoom()) this.writer.enter(this.lines.add(line))
  }

  private leave(last: number): void {
    this.lines.leave(last, this.sending > 0)
    this.settled(last)
  }

  private async counted(send: () => Promise<unknown>): Promise<void> {
    this.sending++
    try {
      await send()
    } finally {
      this.sending--
    }
  }
}

/**
 * Receipts of free work, off the path of the first byte (§14): a crash loses at most the last
 * SVC_RECEIPT_FLUSH_MS. Those of billed work go with their debit, through the ledger. Those that never change go in groups, the others
 * as rows (decision 25).
 */
export class ReceiptWriter {
  private readonly sealed = new SealedGroups(groupReceiptsMax)
  private readonly groups: LineWriter
  private readonly rows: LineWriter
  private readonly macs: ReceiptMacs

  constructor(options: ReceiptWriterOptions) {
    const { sql, macs } = options
    this.macs = macs
    this.groups = new LineWriter(
      options,
      (first, last, bytes) => {
        const groups = this.sealed.within(first, last).map((group) => bytes(group.first, group.last))
        return insertReceiptGroups({ sql }, groups.map(textOf), (...group) => macs.of(groupSubject(...group)))
      },
      (last) => this.sealed.leave(last),
    )
    this.rows = new LineWriter(options, (first, last, bytes) =>
      insertReceiptLines({ sql }, { pieces: bytes(first, last), count: last - first + 1 }),
    )
  }

  /** Never waits. If the queue is full, the receipt is dropped and counted. */
  write(receipt: NewReceipt): void {
    const line = groupLine(receipt)
    if (line === null) this.rows.add(receiptLine({ ...receipt, mac: this.macs.of(receiptSubject(receipt)) }))
    else this.groups.add(line)
  }

  async flush(): Promise<void> {
    await Promise.all([this.groups.writer.flush(), this.rows.writer.flush()])
  }

  async stop(): Promise<void> {
    const ends = await Promise.allSettled([this.groups.writer.stop(), this.rows.writer.stop()])
    for (const end of ends) if (end.status === 'rejected') throw end.reason
  }

  written(): number {
    return this.groups.writer.written() + this.rows.writer.written()
  }

  dropped(): number {
    return this.groups.writer.dropped() + this.rows.writer.dropped()
  }
}

const textOf = (pieces: Pieces): string => (pieces.length === 1 ? String(pieces[0]) : Buffer.concat(pieces).toString())
