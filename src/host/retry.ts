import { type Backoff, backoffMs } from '../backoff.ts'
import { type Clock, sleep, systemClock } from '../clock.ts'

export interface RetryPolicy {
  readonly backoff: Backoff
  /** Called after each failure. What it throws ends the tries. */
  readonly onFailure: (error: unknown, failures: number) => void
  /** Ends the wait that is under way: the try after it is the last. */
  readonly signal: AbortSignal
  readonly clock?: Clock
}

/** Tries again until the work succeeds, with growing waits. Rejects only as `onFailure` does, or after the signal. */
export function retry(policy: RetryPolicy): <R>(work: () => Promise<R>) => Promise<R> {
  const { backoff, onFailure, signal, clock = systemClock } = policy
  return async (work) => {
    for (let failures = 1; ; failures++) {
      try {
        return await work()
      } catch (error) {
        onFailure(error, failures)
        if (signal.aborted) throw error
      }
      await sleep(backoffMs(backoff, failures), signal, clock)
    }
  }
}
