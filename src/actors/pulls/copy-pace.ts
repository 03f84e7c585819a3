import { type Clock, systemClock } from '../../clock.ts'
import { secondMs } from '../../time.ts'

export interface CopyPaceOptions {
  readonly bytesPerSecond: number
  /** Whether this process answers requests now. */
  readonly isBusy: () => boolean
  readonly clock?: Clock
}

/** Between two looks at whether requests are answered, ms. */
const lookMs = 50
/** A conversation has pauses: within this time after a request another is expected, ms. */
const quietMs = 1_000
/** What a copy may be ahead of its time before it is held back: a shorter wait would cost more timers than it saves, ms. */
const aheadMsMax = 5

/**
 * How fast files of models pass this process, all of them together (§39). Each byte takes time of the event loop, in which a first token
 * would have been sent: so there is a bound beside requests, and no bound without them.
 */
export class CopyPace {
  private readonly clock: Clock
  private lookedMs = Number.NEGATIVE_INFINITY
  /** When requests were seen last. */
  private busyMs = Number.NEGATIVE_INFINITY
  /** When what has passed would have passed at the rate. */
  private dueMs = 0

  constructor(private readonly options: CopyPaceOptions) {
    this.clock = options.clock ?? systemClock
  }

  /** Counts bytes that have come. Returns the pause before more may come, ms; 0: no pause. */
  passed(bytes: number): number {
    const nowMs = this.clock.now()
    if (!this.isBusy(nowMs)) {
      this.dueMs = nowMs
      return 0
    }
    this.dueMs = Math.max(this.dueMs, nowMs) + (bytes * secondMs) / this.options.bytesPerSecond
    const aheadMs = this.dueMs - nowMs
    return aheadMs > aheadMsMax ? aheadMs : 0
  }

  private isBusy(nowMs: number): boolean {
    if (nowMs - this.lookedMs >= lookMs) {
      this.lookedMs = nowMs
      if (this.options.isBusy()) this.busyMs = nowMs
    }
    return nowMs - this.busyMs < quietMs
  }
}
