import { jittered } from '../../backoff.ts'
import { hourMs, minuteMs, secondMs } from '../../time.ts'

/** The waits before each attempt of a delivery, ms (§11): 10 attempts in about 75.6 hours. */
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
/** The longest wait that a receiver may ask for. */
const retryAfterMsMax = 24 * hourMs
const jitter = 0.1

/** The waits before the second and third attempts of a job, ms (§10). */
const jobDelaysMs: readonly number[] = [5 * secondMs, 30 * secondMs]

/**
 * Time until the next attempt, ms; null after the last one. `attempts`: the number made so far. `random`: 0 to 1,
 * spreads by a tenth either way. `retryAfterMs`: the receiver's Retry-After, which may lengthen the wait but never
 * shortens it.
 */
export function nextDeliveryDelayMs(attempts: number, random: number, retryAfterMs: number | null): number | null {
  const delay = deliveryDelaysMs[attempts]
  if (delay === undefined) return null
  const spread = Math.round(jittered(delay, jitter, random))
  return Math.max(spread, Math.min(retryAfterMs ?? 0, retryAfterMsMax))
}

/** The wait until the next attempt of a job, ms. null if there is no further attempt. */
export function nextJobDelayMs(attempts: number): number | null {
  return jobDelaysMs[attempts - 1] ?? null
}

/** Reads `Retry-After` of RFC 9110, which is seconds or a date. null for other values and past dates. */
export function retryAfterMs(header: string | null, nowMs: number): number | null {
  const text = header?.trim() ?? ''
  if (/^[0-9]{1,9}$/.test(text)) return Number(text) * secondMs
  if (!/^[A-Z][a-z]{2},/.test(text)) return null
  const until = Date.parse(text)
  return Number.isNaN(until) || until <= nowMs ? null : until - nowMs
}
