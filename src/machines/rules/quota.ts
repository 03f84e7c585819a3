import { secondMs } from '../../time.ts'

/**
 * The retry time of a concurrency refusal. The end of a running request, which frees a slot, cannot be predicted (§3).
 */
export const concurrencyRetrySeconds = 1

/** Whole seconds, at least 1, ±10 %: clients refused together must not come back together (§17). */
export function jitteredSeconds(waitMs: number, random: number): number {
  return Math.max(1, Math.round((waitMs / secondMs) * (0.9 + random * 0.2)))
}

/**
 * The reserve of a lease beyond its present need: the demand since the last message, but never more than a fixed part
 * of the limit. Steady traffic then asks the database about once a second, and an idle gateway strands nothing.
 */
export function reserveFor(demand: number, elapsedMs: number, reserveMax: number): number {
  const perSecond = elapsedMs < secondMs ? demand * 2 : (demand * secondMs) / elapsedMs
  return Math.max(0, Math.floor(Math.min(perSecond, reserveMax)))
}

/** The largest reserves, as parts of the limit. A gateway that crashes loses at most its reserve of the day. */
export const reserveParts = { quota: 64, rate: 16, slots: 4 } as const

export interface LimitView {
  /** `chat`, `chat-tokens`, … as in `RateLimit-Policy`. */
  readonly name: string
  readonly limit: number
  readonly windowSeconds: number
  readonly remaining: number
  /** The time until the limit is whole again, or after a refusal until something is available. */
  readonly resetSeconds: number
}

/** `RateLimit-Policy` and `RateLimit` (§17; draft-ietf-httpapi-ratelimit-headers). */
export function rateLimitHeaders(views: readonly LimitView[]): Readonly<Record<string, string>> {
  return {
    'ratelimit-policy': views.map((view) => `"${view.name}";q=${view.limit};w=${view.windowSeconds}`).join(', '),
    ratelimit: views
      .map((view) => `"${view.name}";r=${Math.max(0, Math.floor(view.remaining))};t=${Math.ceil(view.resetSeconds)}`)
      .join(', '),
  }
}
