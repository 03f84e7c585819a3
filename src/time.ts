/** RFC 3339 UTC with three fractional digits, the one form on every wire (decisions §1). */
export function isoTime(at: number | Date): string {
  const ms = typeof at === 'number' ? Math.floor(at) : at.getTime()
  if (ms === lastMs) return lastText
  lastText = new Date(ms).toISOString()
  lastMs = ms
  return lastText
}

// Log line, receipt and answer of one request mostly fall into one millisecond.
let lastMs = Number.NaN
let lastText = ''

export const secondMs = 1_000
export const minuteMs = 60_000
export const hourMs = 3_600_000
export const dayMs = 86_400_000

/** `YYYY-MM-DD` in UTC: the window of a daily quota. */
export function utcDay(atMs: number): string {
  return new Date(atMs).toISOString().slice(0, 10)
}

/** Whole seconds until the next 00:00 UTC, at least 1. */
export function secondsToUtcMidnight(atMs: number): number {
  return Math.max(1, Math.ceil((dayMs - (atMs % dayMs)) / secondMs))
}
