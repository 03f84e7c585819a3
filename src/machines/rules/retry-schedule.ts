import { hourMs, minuteMs, secondMs } from '../../time.ts'

/** Before each attempt of a delivery, ms (§11): 10 in all, about 75.6 hours. */
export const deliveryDelaysMs: readonly number[] = [
  0,
  5 * secondMs,
  5 * minuteMs,
  30 * minuteMs,
  2 * hourMs,
  5 * hourMs,
  10 * hourMs,
  14 * hourMs,
  20 * hourMs,
  24 * hourMs,
]
export const deliveryAttemptsMax = deliveryDelaysMs.length
/** What a receiver may ask for at most. */
const retryAfterMsMax = 24 * hourMs
const jitter = 0.1

/** Before the second and the third attempt of a job, ms (§10). */
const jobDelaysMs: readonly number[] = [5 * secondMs, 30 * secondMs]

/**
 * Until the next attempt, ms; null: there is none. `attempts`: those that were made. `random`: 0 to 1, spreads by a
 * tenth either way. `retryAfterMs`: the receiver's wish, which lengthens the wait and never shortens it.
 */
export function nextDeliveryDelayMs(attempts: number, random: number, retryAfterMs: number | null): number | null {
  const delay = deliveryDelaysMs[attempts]
  if (delay === undefined) return null
  const spread = Math.round(delay * (1 - jitter + 2 * jitter * random))
  return Math.max(spread, Math.min(retryAfterMs ?? 0, retryAfterMsMax))
}

/** Until the next attempt of a job, ms; null: `attempts` were all. */
export function nextJobDelayMs(attempts: number): number | null {
  return jobDelaysMs[attempts - 1] ?? null
}

/** `Retry-After` as RFC 9110 has it: seconds, or a date. null: neither, or not in the future. */
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? ''
  if (/^[0-9]{1,9}$/.test(text)) return Number(text) * secondMs
  if (!/^[A-Z][a-z]{2},/.test(text)) return null
  const until = Date.parse(text)
  return Number.isNaN(until) || until <= nowMs ? null : until - nowMs
}
