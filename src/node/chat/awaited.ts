import { secondMs } from '../../time.ts'

/** A call whose answer takes longer to begin, or comes as a whole, is no longer waited for, ms. */
const awaitedMsMax = 15 * secondMs

/** Somebody waits for the beginning of an answer, and other work leaves network and disk to that. */
export function isAwaited(calls: Iterable<{ readonly spoke: boolean; readonly startedMs: number }>): boolean {
  const sinceMs = Date.now() - awaitedMsMax
  for (const { spoke, startedMs } of calls) if (!spoke && startedMs > sinceMs) return true
  return false
}
