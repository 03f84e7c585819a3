import { waitLimitMs } from './limits.ts'

/**
 * A look is often a request to a gateway with a query of its database: who waits for seconds looks less often, by a tenth of the time it
 * has waited, so that waiting tests leave the processor to those that work.
 */
const [lookEveryMsMin, lookEveryMsMax, shareOfWait] = [5, 50, 0.1]

/**
 * Looks until there is something, and returns it; rejects with `what` when nothing has come within `waitLimitMs`.
 * `longerMs`: for heavy tests, whose work takes longer than that on a machine with nothing else to do.
 */
export async function waitFor<T>(
  what: string,
  look: () => T | Promise<T>,
  longerMs = waitLimitMs,
): Promise<NonNullable<T>> {
  const limitMs = Math.max(longerMs, waitLimitMs)
  const fromMs = performance.now()
  for (;;) {
    const seen = await look()
    if (seen !== null && seen !== undefined && seen !== false) return seen as NonNullable<T>
    const waitedMs = performance.now() - fromMs
    if (waitedMs > limitMs) throw new Error(`did not come within ${limitMs / 1_000} s: ${what}`)
    await Bun.sleep(Math.min(lookEveryMsMax, Math.max(lookEveryMsMin, shareOfWait * waitedMs)))
  }
}

/** Looks until it holds. */
export async function waitUntil(
  what: string,
  holds: () => boolean | Promise<boolean>,
  longerMs = waitLimitMs,
): Promise<void> {
  await waitFor(what, holds, longerMs)
}

/** What the promise resolves with; rejects with `what` when it has not settled within `waitLimitMs`. */
export function settled<T>(what: string, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new Error(`did not end within ${waitLimitMs / 1_000} s: ${what}`)),
    waitLimitMs,
  )
  return Promise.race([promise, late.promise]).finally(() => clearTimeout(timer))
}
