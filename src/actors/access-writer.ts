import type { Database } from '../db/client.ts'
import { type AccessEventRow, ensureAuditPartitions, insertAccessEvents } from '../db/queries/audit-events.ts'
import { within } from '../deadline.ts'
import { failureName, type Log } from '../log.ts'
import { secondMs } from '../time.ts'

/** Writes access events in groups after their responses (decisions §16). */
export interface AccessWriter {
  /** Queued. Without the database it waits; beyond the queue's bound it is refused and counted. */
  write(event: AccessEventRow): void
  /** Resolves when everything written before is in the database; rejects when it is away. */
  flush(): Promise<void>
  /** The last flush, tried for at most 10 s; rejects when something is left. */
  stop(): Promise<void>
  written(): number
  /** Never stored: no room, or a row that the database will not take. */
  refused(): number
}

export interface AccessWriterOptions {
  readonly db: Database
  readonly log: Log
  /** Events that may wait for the database. */
  readonly queueMax?: number
}

/** About 10 MB; at the 600 requests a minute that one token has, a quarter of an hour without the database. */
const queueMaxDefault = 10_000
const batchMax = 500
const retryMsMin = 100
const retryMsMax = 5 * secondMs
const insertWaitMs = 20 * secondMs
const stopWaitMs = 10 * secondMs
/** A row that fits no partition; SQLSTATE classes 22 and 23: the row itself is at fault, not the moment. */
const rowFault = /^2[23]...$/

export function createAccessWriter(options: AccessWriterOptions): AccessWriter {
  return new GroupedAccessWriter(options)
}

class GroupedAccessWriter implements AccessWriter {
  private queue: AccessEventRow[] = []
  private timer: ReturnType<typeof setTimeout> | null = null
  private writing: Promise<void> | null = null
  private failures = 0
  private writtenCount = 0
  private refusedCount = 0
  private readonly queueMax: number

  constructor(private readonly options: AccessWriterOptions) {
    this.queueMax = options.queueMax ?? queueMaxDefault
  }

  write(event: AccessEventRow): void {
    if (this.queue.length >= this.queueMax) return this.refuse()
    this.queue.push(event)
    // What gathers while a group is on its way goes next.
    if (this.failures === 0) void this.begin()
    else this.later()
  }

  async flush(): Promise<void> {
    // The end of one group begins the next, so an empty queue alone does not say that all is written.
    while (this.writing !== null || this.queue.length > 0) {
      const before = this.failures
      await this.begin()
      if (this.failures > before) throw new Error('access events not written')
    }
  }

  async stop(): Promise<void> {
    const deadline = performance.now() + stopWaitMs
    while (!(await this.emptied(deadline - performance.now()))) {
      if (performance.now() + retryMsMin > deadline) {
        this.options.log.error('access_events_lost', { events: this.queue.length })
        throw new Error('access events not written')
      }
      await Bun.sleep(retryMsMin)
    }
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }

  written(): number {
    return this.writtenCount
  }

  refused(): number {
    return this.refusedCount
  }

  private emptied(withinMs: number): Promise<boolean> {
    return within(withinMs, this.flush()).then(
      () => true,
      () => false,
    )
  }

  private later(): void {
    const delayMs = Math.min(retryMsMax, retryMsMin * 2 ** Math.min(10, this.failures - 1))
    this.timer ??= setTimeout(() => {
      this.timer = null
      void this.begin()
    }, delayMs)
  }

  private begin(): Promise<void> {
    this.writing ??= this.writeBatch().finally(() => {
      this.writing = null
      if (this.queue.length === 0) return
      if (this.failures === 0) void this.begin()
      else this.later()
    })
    return this.writing
  }

  private async writeBatch(): Promise<void> {
    const batch = this.queue.slice(0, batchMax)
    if (batch.length === 0) return
    this.queue = this.queue.slice(batch.length)
    try {
      await this.insert(batch)
      this.failures = 0
      this.writtenCount += batch.length
    } catch (error) {
      if (rowFault.test(failureName(error))) return this.writeOneByOne(batch)
      this.failed(error, batch)
    }
  }

  /** The week may have no partition yet; and one row that the database will never take must not hold up all others. */
  private async writeOneByOne(batch: readonly AccessEventRow[]): Promise<void> {
    for (const [index, event] of batch.entries()) {
      try {
        await ensureAuditPartitions(this.options.db, event.createdAt, event.createdAt)
        await this.insert([event])
        this.writtenCount++
      } catch (error) {
        if (!rowFault.test(failureName(error))) return this.failed(error, batch.slice(index))
        this.refuse()
      }
    }
  }

  private failed(error: unknown, left: readonly AccessEventRow[]): void {
    this.failures++
    if (this.failures === 1) this.options.log.warn('access_events_wait', { error: failureName(error) })
    this.queue = [...left, ...this.queue]
  }

  private insert(events: readonly AccessEventRow[]): Promise<void> {
    return within(insertWaitMs, insertAccessEvents(this.options.db, events))
  }

  private refuse(): void {
    this.refusedCount++
    // The first of a run, and then every hundredth: the counter is what an alert reads.
    if (this.refusedCount % 100 === 1) this.options.log.error('access_events_refused', { events: this.refusedCount })
  }
}
