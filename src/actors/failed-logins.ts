import { minuteMs } from '../time.ts'

/** Counts failed authentications per address (decisions §4); what succeeds is never counted and never locked out. */
export interface FailedLogins {
  /**
   * One more failed attempt. `refuse`: answer 401; `locked`: answer 429. Counted by each gateway for itself: all that
   * can differ between two is which of the two refusals an attempt gets.
   */
  failed(ipHash: string): 'refuse' | 'locked'
  /** Until failed attempts of a locked address get 401 again, at least 1; null when it is not locked. */
  lockedSeconds(ipHash: string): number | null
}

export interface FailedLoginsOptions {
  /** SVC_AUTH_FAILURES_PER_MINUTE: more than these within a minute lock. */
  readonly perMinute: number
  /** SVC_AUTH_LOCKOUT_MS. */
  readonly lockoutMs: number
  readonly now?: () => number
}

interface Failures {
  windowStartMs: number
  inWindow: number
  inWindowBefore: number
  lockedUntilMs: number
}

/** Beyond this the address that failed longest ago is forgotten. */
const addressesMax = 20_000

export function createFailedLogins(options: FailedLoginsOptions): FailedLogins {
  const now = options.now ?? Date.now
  const addresses = new Map<string, Failures>()
  const remember = (ipHash: string, failures: Failures) => {
    addresses.delete(ipHash)
    addresses.set(ipHash, failures)
    if (addresses.size <= addressesMax) return
    for (const oldest of addresses.keys()) {
      addresses.delete(oldest)
      break
    }
  }
  return {
    failed: (ipHash) => {
      const at = now()
      const failures = addresses.get(ipHash) ?? { windowStartMs: at, inWindow: 0, inWindowBefore: 0, lockedUntilMs: 0 }
      remember(ipHash, failures)
      if (at < failures.lockedUntilMs) return 'locked'
      if (count(failures, at) <= options.perMinute) return 'refuse'
      failures.lockedUntilMs = at + options.lockoutMs
      failures.inWindow = 0
      failures.inWindowBefore = 0
      return 'locked'
    },
    lockedSeconds: (ipHash) => {
      const left = (addresses.get(ipHash)?.lockedUntilMs ?? 0) - now()
      return left > 0 ? Math.ceil(left / 1_000) : null
    },
  }
}

/** Failures of the last minute, this one included: the minute before counts by the part of it that is still within. */
function count(failures: Failures, at: number): number {
  const elapsed = at - failures.windowStartMs
  if (elapsed >= minuteMs || elapsed < 0) {
    failures.inWindowBefore = elapsed >= 0 && elapsed < 2 * minuteMs ? failures.inWindow : 0
    failures.inWindow = 0
    failures.windowStartMs = elapsed >= 0 && elapsed < 2 * minuteMs ? failures.windowStartMs + minuteMs : at
  }
  failures.inWindow++
  const within = 1 - (at - failures.windowStartMs) / minuteMs
  return failures.inWindow + failures.inWindowBefore * within
}
