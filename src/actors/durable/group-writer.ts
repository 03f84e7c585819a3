import { backoffMs } from '../../backoff.ts'
import { Alarm, type Clock, systemClock } from '../../clock.ts'
import { within } from '../../deadline.ts'
import { atMostEvery } from '../../host/outage.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'
import { isRowFault } from './group-commit.ts'

export interface GroupWriterOptions<T> {
  /** The prefix of its log events: `<name>_wait`, `<name>_written_again`, `<name>_dropped`, `<name>_lost`. */
  readonly name: string
  readonly log: Log
  /** Inserts all rows with one statement. Rows that exist already may stay as they are. */
  readonly insert: (rows: readonly T[]) => Promise<unknown>
  /** Runs before a row is written alone because its group was refused. */
  readonly prepare?: (row: T) => Promise<unknown>
  /** These rows are in the database, or will never be: the writer asks for them no more. In the order of their coming. */
  readonly settled?: (rows: readonly T[]) => void
  /** How long the first row of a group waits for others, ms. A full group does not wait. */
  readonly gatherMs: number
  /** How many rows may wait for the database. */
  readonly queueMax: number
  /** How many rows one statement has at most. */
  readonly batchMax?: number
  readonly clock?: Clock
}

const batchMaxDefault = 500
const retries = { firstMs: 100, maxMs: 5 * secondMs }
/** This is longer than a statement may take. */
const insertWaitMs = 20 * secondMs
const stopWaitMs = 10 * secondMs
const dropLogEveryMs = secondMs

/** Writes rows in groups, so that requests do not wait for them. */
export class GroupWriter<T> {
  private queue: T[] = []
  /** Begins the next group. */
  private readonly alarm: Alarm
  private writing: Promise<void> | null = null
  private failures = 0
  private droppedCount = 0
  private writtenCount = 0
  private readonly reportDropped: () => void
  private readonly batchMax: number

  constructor(private readonly options: GroupWriterOptions<T>) {
    const { batchMax = batchMaxDefault, clock = systemClock, log, name } = options
    this.batchMax = batchMax
    this.alarm = new Alarm(() => void this.begin(), clock)
    const report = () => log.error(`${name}_dropped`, { rows: this.droppedCount })
    this.reportDropped = atMostEvery(dropLogEveryMs, report, clock)
  }

  /** False if the queue is full: then one row is dropped and counted. For rows that are made only where there is room. */
  hasRoom(): boolean {
    if (this.queue.length < this.options.queueMax) return true
    this.drop()
    return false
  }

  /** Queues the row. Without the database it waits. If the queue is full, the row is dropped and counted. */
  write(row: T): void {
    if (this.hasRoom()) this.enter(row)
  }

  /** Queues a row for which there was room just now. */
  enter(row: T): void {
    this.queue.push(row)
    this.next()
  }

  /** Resolves when all earlier rows are in the database. Rejects when the database is away. */
  async flush(): Promise<void> {
    // The end of one group starts the next, so an empty queue alone does not mean that everything is written.
    while (this.writing !== null || this.queue.length > 0) {
      const before = this.failures
      await this.begin()
      if (this.failures > before) throw new Error(`${this.options.name} not written`)
    }
  }

  /** Flushes for at most 10 s. Rejects if rows are left. */
  async stop(): Promise<void> {
    const { log, name } = this.options
    const deadline = performance.now() + stopWaitMs
    while (!(await this.emptied(deadline - performance.now()))) {
      if (performance.now() + retries.firstMs > deadline) {
        log.error(`${name}_lost`, { rows: this.queue.length })
        throw new Error(`${name} not written`)
      }
      await Bun.sleep(retries.firstMs)
    }
    this.alarm.clear()
  }

  /** The number of rows that were stored. */
  written(): number {
    return this.writtenCount
  }

  /** The number of rows that were not stored, because the queue was full or the database refused them. */
  dropped(): number {
    return this.droppedCount
  }

  private emptied(withinMs: number): Promise<boolean> {
    return within(withinMs, this.flush()).then(
      () => true,
      () => false,
    )
  }

  /**
   * Starts the next group at once if enough rows wait, otherwise after a delay. The delay grows while the database is
   * away.
   */
  private next(): void {
    const { failures, queue, batchMax } = this
    const gatherMs = queue.length >= batchMax ? 0 : this.options.gatherMs
    const delayMs = failures === 0 ? gatherMs : backoffMs(retries, failures)
    if (delayMs === 0) void this.begin()
    else if (!this.alarm.isSet) this.alarm.set(delayMs)
  }

  /** Only one insert runs at a time. Rows that arrive meanwhile form the next group. */
  private begin(): Promise<void> {
    this.writing ??= this.writeBatch().finally(() => {
      this.writing = null
      if (this.queue.length > 0) this.next()
    })
    return this.writing
  }

  private async writeBatch(): Promise<void> {
    const batch = this.queue.slice(0, this.batchMax)
    if (batch.length === 0) return
    this.queue = this.queue.slice(batch.length)
    const { log, name } = this.options
    try {
      await this.insert(batch)
      if (this.failures > 0) log.info(`${name}_written_again`, { waiting: this.queue.length })
      this.failures = 0
      this.writtenCount += batch.length
      this.options.settled?.(batch)
    } catch (error) {
      if (isRowFault(error)) return this.writeOneByOne(batch)
      this.failed(error, batch)
    }
  }

  /** One row that the database will never accept must not hold up the others. */
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
      this.options.settled?.([row])
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
    this.reportDropped()
  }
}
