import { waitAtMost } from '../../deadline.ts'
import { retry } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { secondMs } from '../../time.ts'
import { isRowFault } from './group-commit.ts'

const retries = { firstMs: 50, maxMs: 5 * secondMs }

/** Writes for work that is done, each repeated until the database has taken it. Repeating one must do no harm. */
export class UntilTaken {
  /** Under way. */
  count = 0
  private allTaken: (() => void) | null = null
  private readonly stopping = new AbortController()
  private readonly retried: ReturnType<typeof retry>

  constructor(private readonly log: Log) {
    this.retried = retry({
      backoff: retries,
      onFailure: (error, failures) => this.notTaken(error, failures),
      signal: this.stopping.signal,
    })
  }

  /** Rejects with what the database will never take, and with what it does not take while this process stops. */
  write<R>(work: () => Promise<R>): Promise<R> {
    this.began()
    return this.retried(work).finally(() => this.ended())
  }

  /** One more write is under way until `ended`. The caller goes on by `again` where the database has not taken it. */
  began(): void {
    this.count++
  }

  ended(): void {
    this.count--
    if (this.count === 0) this.allTaken?.()
  }

  /** As `write`, behind a first time that has failed so. */
  again<R>(failure: unknown, work: () => Promise<R>): Promise<R> {
    let first = true
    return this.write(() => {
      if (!first) return work()
      first = false
      return Promise.reject(failure)
    })
  }

  /** Waits for the attempt under way, at most this long, ms. */
  async settled(waitMs: number): Promise<void> {
    if (this.count === 0) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.allTaken = resolve
    await waitAtMost(waitMs, promise)
  }

  /** Nothing is tried again. */
  stop(): void {
    this.stopping.abort()
  }

  private notTaken(error: unknown, failures: number): void {
    if (isRowFault(error) || this.stopping.signal.aborted) {
      this.log.error('settle_failed', { error: failureName(error) })
      throw error
    }
    if (failures === 1) this.log.warn('settle_waits', { error: failureName(error) })
  }
}
