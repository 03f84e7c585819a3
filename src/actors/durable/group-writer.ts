import { within } from '../../deadline.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'
import { isRowFault } from './group-commit.ts'

export interface GroupWriterOptions<T> {
  /** Of its log events: `<name>_wait`, `<name>_written_again`, `<name>_dropped`, `<name>_lost`. */
  readonly name: string
  readonly log: Log
  /** One statement for all; what is there already may stay as it is. */
  readonly insert: (rows: readonly T[]) => Promise<unknown>
  /** Before a row is tried by itself, because its group was refused. */
  readonly prepare?: (row: T) => Promise<unknown>
  /** What begins a group waits so long for company, ms; a full group waits for none. */
  readonly gatherMs: number
  /** Rows that may wait for the database. */
  readonly queueMax: number
}

const batchMax = 500
const retryMsMin = 100
const retryMsMax = 5 * secondMs
/** Longer than a statement may take. */
const insertWaitMs = 20 * secondMs
const stopWaitMs = 10 * secondMs
const dropLogEveryMs = secondMs

/** Writes rows in groups, off the path of what they tell of. */
export class GroupWriter<T> {
  private queue: T[] = []
  private timer: ReturnType<typeof setTimeout> | null = null
  private writing: Promise<void> | null = null
  private failures = 0
  private droppedCount = 0
  private writtenCount = 0
  private dropLoggedMs = Number.NEGATIVE_INFINITY

  constructor(private readonly options: GroupWriterOptions<T>) {}

  /** Queued. Without the database it waits; beyond the queue's bound it is dropped and counted. */
  write(row: T): void {
    if (this.queue.length >= this.options.queueMax) return this.drop()
    this.queue.push(row)
    this.next()
  }

  /** Resolves when everything written before is in the database; rejects when it is away. */
  async flush(): Promise<void> {
    // The end of one group begins the next, so an empty queue alone does not say that all is written.
    while (this.writing !== null || this.queue.length > 0) {
      const before = this.failures
      await this.begin()
      if (this.failures > before) throw new Error(`${this.options.name} not written`)
    }
  }

  /** The last flush, tried for at most 10 s; rejects when something is left. */
  async stop(): Promise<void> {
    const { log, name } = this.options
    const deadline = performance.now() + stopWaitMs
    while (!(await this.emptied(deadline - performance.now()))) {
      if (performance.now() + retryMsMin > deadline) {
        log.error(`${name}_lost`, { rows: this.queue.length })
        throw new Error(`${name} not written`)
      }
      await Bun.sleep(retryMsMin)
    }
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }

  /** In the database. */
  written(): number {
    return this.writtenCount
  }

  /** Never stored: no room, or a row that the database will not take. */
  dropped(): number {
    return this.droppedCount
  }

  private emptied(withinMs: number): Promise<boolean> {
    return within(withinMs, this.flush()).then(
      () => true,
      () => false,
    )
  }

  /** The next group: when enough have gathered at once, else after a while; longer and longer while the database is away. */
  private next(): void {
    const { failures, queue } = this
    const gatherMs = queue.length >= batchMax ? 0 : this.options.gatherMs
    const delayMs = failures === 0 ? gatherMs : Math.min(retryMsMax, retryMsMin * 2 ** Math.min(10, failures - 1))
    if (delayMs === 0) {
      void this.begin()
      return
    }
    this.timer ??= setTimeout(() => {
      this.timer = null
      void this.begin()
    }, delayMs)
  }

  /** One insert at a time; what has come meanwhile gathers like any other. */
  private begin(): Promise<void> {
    this.writing ??= this.writeBatch().finally(() => {
      this.writing = null
      if (this.queue.length > 0) this.next()
    })
    return this.writing
  }

  private async writeBatch(): Promise<void> {
    const batch = this.queue.slice(0, batchMax)
    if (batch.length === 0) return
    this.queue = this.queue.slice(batch.length)
    const { log, name } = this.options
    try {
      await this.insert(batch)
      if (this.failures > 0) log.info(`${name}_written_again`, { waiting: this.queue.length })
      this.failures = 0
      this.writtenCount += batch.length
    } catch (error) {
      if (isRowFault(error)) return this.writeOneByOne(batch)
      this.failed(error, batch)
    }
  }

  /** One row that the database will never take must not hold up all others. */
  private async writeOneByOne(batch: readonly T[]): Promise<void> {
    for (const [index, row] of batch.entries()) {
      try {
        await this.options.prepare?.(row)
        await this.insert([row])
        this.writtenCount++
      } catch (error) {
        if (!isRowFault(error)) return this.failed(error, batch.slice(index))
        this.drop()
      }
    }
  }

  private failed(error: unknown, left: readonly T[]): void {
    const { log, name } = this.options
    this.failures++
    if (this.failures === 1) log.warn(`${name}_wait`, { error: failureName(error) })
    this.queue = [...left, ...this.queue]
  }

  private insert(rows: readonly T[]): Promise<unknown> {
    return within(insertWaitMs, this.options.insert(rows))
  }

  private drop(): void {
    this.droppedCount++
    const now = performance.now()
    if (now - this.dropLoggedMs < dropLogEveryMs) return
    this.dropLoggedMs = now
    const { log, name } = this.options
    log.error(`${name}_dropped`, { rows: this.droppedCount })
  }
}
