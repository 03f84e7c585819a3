import { minuteMs, secondMs } from '../../time.ts'

/** Counts failed authentications per address (§4). Successful ones are never counted and never locked out. */
export interface FailedLogins {
  /**
   * One more failed attempt. `refuse`: answer 401; `locked`: answer 429. Counted by each gateway for itself: all that
   * can differ between two is which of the two refusals an attempt gets.
   */
  failed(ipHash: string): 'refuse' | 'locked'
  /** Seconds until failed attempts of a locked address get 401 again, at least 1. null if the address is not locked. */
  lockedSeconds(ipHash: string): number | null
}

export interface FailedLoginsOptions {
  /** SVC_AUTH_FAILURES_PER_MINUTE: more failures than this within a minute lock the address. */
  readonly perMinute: number
  /** SVC_AUTH_LOCKOUT_MS. */
  readonly lockoutMs: number
  readonly now?: () => number
}

interface Failures {
  /** The failures of the last minute (Unix ms), oldest first, at most as many as the limit. */
  times: number[]
  lockedUntilMs: number
}

/** How many addresses are remembered. Beyond it the address whose last failure is oldest is forgotten. */
const addressesMax = 20_000
const timesMax = 2_000_000

export function createFailedLogins(options: FailedLoginsOptions): FailedLogins {
  const now = options.now ?? Date.now
  const addresses = new Map<string, Failures>()
  const kept = Math.max(1, Math.min(addressesMax, Math.floor(timesMax / options.perMinute)))
  const remembered = (ipHash: string): Failures => {
    const failures = addresses.get(ipHash) ?? { times: [], lockedUntilMs: 0 }
    addresses.delete(ipHash)
    addresses.set(ipHash, failures)
    if (addresses.size > kept) {
      const [oldest] = addresses.keys()
      if (oldest !== undefined) addresses.delete(oldest)
    }
    return failures
  }
  return {
    failed: (ipHash) => {
      const at = now()
      const failures = remembered(ipHash)
      if (at < failures.lockedUntilMs) return 'locked'
      const times = failures.times.filter((time) => at - time < minuteMs)
      failures.times = times
      times.push(at)
      if (times.length <= options.perMinute) return 'refuse'
      failures.lockedUntilMs = at + options.lockoutMs
      failures.times = []
      return 'locked'
    },
    lockedSeconds: (ipHash) => {
      const left = (addresses.get(ipHash)?.lockedUntilMs ?? 0) - now()
      return left > 0 ? Math.ceil(left / secondMs) : null
    },
  }
}
