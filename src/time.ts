/** RFC 3339 UTC with three fractional digits, the one form on every wire (§1). */
export function isoTime(at: number | Date): string {
  const ms = typeof at === 'number' ? Math.floor(at) : at.getTime()
  const second = Math.floor(ms / 1_000)
  if (second !== lastSecond) {
    lastText = new Date(second * 1_000).toISOString().slice(0, -4)
    lastSecond = second
  }
  const rest = ms - second * 1_000
  return `${lastText}${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}Z`
}

// Log line, receipt and answer of one request mostly fall into one second.
let lastSecond = Number.NaN
let lastText = ''

export const secondMs = 1_000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

const retrySecondsMax = 120

/** What `Retry-After` says of a wait: whole seconds, 1 to 120 (§2). */
export const retrySeconds = (waitMs: number): number =>
  Math.min(retrySecondsMax, Math.max(1, Math.ceil(waitMs / secondMs)))

/** `YYYY-MM-DD` in UTC: the window of a daily quota. */
export function utcDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

/** Whole seconds until the next 00:00 UTC, at least 1. */
export function secondsToUtcMidnight(atMs: number): number {
  return Math.max(1, Math.ceil((dayMs - (atMs % dayMs)) / secondMs))
}
