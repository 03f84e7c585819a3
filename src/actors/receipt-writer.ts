import type { Database } from '../db/client.ts'
import { insertReceipts, type NewReceipt } from '../db/queries/receipts.ts'
import { within } from '../deadline.ts'
import { failureName, type Log } from '../log.ts'
import { secondMs } from '../time.ts'
import { isRowFault } from './group-commit.ts'

export type { NewReceipt } from '../db/queries/receipts.ts'

/** Writes receipts in groups, off the path of the first byte (decisions §14). */
export interface ReceiptWriter {
  /** Queued: a crash loses at most the last SVC_RECEIPT_FLUSH_MS. Without the database it waits; beyond the queue's bound it is dropped and counted. */
  write(receipt: NewReceipt): void
  /** Resolves when the receipt is on the disk of the database; rejects when that fails. For billed work. */
  writeDurably(receipt: NewReceipt): Promise<void>
  /** Resolves when everything written before is in the database; rejects when it is away. */
  flush(): Promise<void>
  /** The last flush, tried for at most 10 s; rejects if something is left. */
  stop(): Promise<void>
  /** Never written for want of room. */
  dropped(): number
  /** In the database. */
  written(): number
}

export interface ReceiptWriterOptions {
  readonly db: Database
  /** SVC_RECEIPT_FLUSH_MS. */
  readonly flushMs: number
  readonly log: Log
  /** Receipts that may wait for the database. */
  readonly queueMax?: number
}

interface Queued {
  readonly receipt: NewReceipt
  readonly settle: ((error: unknown) => void) | null
}

/** At 1,000 requests a second about 100 s without the database; some 60 MB. */
const queueMaxDefault = 100_000
const batchMax = 500
const retryMsMin = 100
const retryMsMax = 5 * secondMs
/** Longer than a statement may take. What was written after all is not written twice. */
const insertWaitMs = 20 * secondMs
const stopWaitMs = 10 * secondMs
const dropLogEveryMs = secondMs

export function createReceiptWriter(options: ReceiptWriterOptions): ReceiptWriter {
  return new GroupedReceiptWriter(options)
}

class GroupedReceiptWriter implements ReceiptWriter {
  private queue: Queued[] = []
  private timer: ReturnType<typeof setTimeout> | null = null
  private writing: Promise<void> | null = null
  private failures = 0
  private droppedCount = 0
  private writtenCount = 0
  private dropLoggedMs = Number.NEGATIVE_INFINITY
  private readonly queueMax: number

  constructor(private readonly options: ReceiptWriterOptions) {
    this.queueMax = options.queueMax ?? queueMaxDefault
  }

  write(receipt: NewReceipt): void {
    if (this.queue.length >= this.queueMax) return this.drop()
    this.queue.push({ receipt, settle: null })
    if (this.queue.length >= batchMax && this.failures === 0) void this.begin()
    else this.later(this.failures > 0 ? this.retryMs() : this.options.flushMs)
  }

  writeDurably(receipt: NewReceipt): Promise<void> {
    if (this.queue.length >= this.queueMax) {
      this.drop()
      return Promise.reject(new Error('receipt queue full'))
    }
    return new Promise((resolve, reject) => {
      const settle = (error: unknown) => (error === null ? resolve() : reject(error))
      this.queue.push({ receipt, settle })
      void this.begin()
    })
  }

  async flush(): Promise<void> {
    // The insert under way first: what it could not write stands in the queue again afterwards.
    await this.writing
    while (this.queue.length > 0) {
      const before = this.failures
      await this.begin()
      if (this.failures > before) throw new Error('receipts not written')
    }
  }

  async stop(): Promise<void> {
    const deadline = performance.now() + stopWaitMs
    while (!(await this.emptied(deadline - performance.now()))) {
      if (performance.now() + retryMsMin > deadline) {
        this.options.log.error('receipts_lost', { receipts: this.queue.length })
        throw new Error('receipts not written')
      }
      await Bun.sleep(retryMsMin)
    }
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }

  dropped(): number {
    return this.droppedCount
  }

  written(): number {
    return this.writtenCount
  }

  private emptied(withinMs: number): Promise<boolean> {
    return within(withinMs, this.flush()).then(
      () => true,
      () => false,
    )
  }

  private later(ms: number): void {
    this.timer ??= setTimeout(() => {
      this.timer = null
      void this.begin()
    }, ms)
  }

  /** One insert at a time; whatever gathered meanwhile goes next. */
  private begin(): Promise<void> {
    this.writing ??= this.writeBatch().finally(() => {
      this.writing = null
      if (this.queue.length > 0) this.later(this.failures > 0 ? this.retryMs() : 0)
    })
    return this.writing
  }

  private async writeBatch(): Promise<void> {
    const batch = this.queue.slice(0, batchMax)
    if (batch.length === 0) return
    this.queue = this.queue.slice(batch.length)
    try {
      await this.insert(batch.map(({ receipt }) => receipt))
      if (this.failures > 0) this.options.log.info('receipts_written_again', { waiting: this.queue.length })
      this.failures = 0
      this.writtenCount += batch.length
      for (const { settle } of batch) settle?.(null)
    } catch (error) {
      if (isRowFault(error)) return this.writeOneByOne(batch)
      this.failures++
      if (this.failures === 1) this.options.log.warn('receipts_wait', { error: failureName(error) })
      for (const { settle } of batch) settle?.(error)
      // Who waited was told; the rest is tried again, in its order.
      this.queue = [...batch.filter(({ settle }) => settle === null), ...this.queue]
    }
  }

  /** One row that the database will never take must not hold up all others. */
  private async writeOneByOne(batch: readonly Queued[]): Promise<void> {
    for (const [index, { receipt, settle }] of batch.entries()) {
      try {
        await this.insert([receipt])
        this.writtenCount++
        settle?.(null)
      } catch (error) {
        if (!isRowFault(error)) {
          this.failures++
          for (const rest of batch.slice(index)) rest.settle?.(error)
          this.queue = [...batch.slice(index).filter((rest) => rest.settle === null), ...this.queue]
          return
        }
        this.drop()
        settle?.(error)
      }
    }
  }

  private insert(receipts: readonly NewReceipt[]): Promise<void> {
    return within(insertWaitMs, insertReceipts(this.options.db, receipts))
  }

  private retryMs(): number {
    return Math.min(retryMsMax, retryMsMin * 2 ** Math.min(10, this.failures - 1))
  }

  private drop(): void {
    this.droppedCount++
    const now = performance.now()
    if (now - this.dropLoggedMs < dropLogEveryMs) return
    this.dropLoggedMs = now
    this.options.log.error('receipts_dropped', { receipts: this.droppedCount })
  }
}
