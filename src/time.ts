/** RFC 3339 UTC with three fractional digits, the one form on every wire (§1). */
export function isoTime(at: number | Date): string {
  const ms = typeof at === 'number' ? Math.floor(at) : at.getTime()
  const second = Math.floor(ms / 1_000)
  if (second !== lastSecond) {
    lastText = new Date(second * 1_000).toISOString().slice(0, -4)
    lastSecond = second
  }
  return lastText + (rests[ms - second * 1_000] ?? '')
}

/** What follows the second, by its milliseconds. */
const rests = Array.from({ length: 1_000 }, (_, ms) => `${String(ms).padStart(3, '0')}Z`)

// Log line, receipt and answer of one request mostly fall into one second.
let lastSecond = Number.NaN
let lastText = ''

/** Unix ms of what `isoTime` writes; of any other text what `Date.parse` says, which takes eight times as long. */
export function isoMs(text: string): number {
  if (text.length === isoLength && text.startsWith(readText)) {
    const rest = 100 * digitAt(text, 20) + 10 * digitAt(text, 21) + digitAt(text, 22)
    if (text.charCodeAt(23) === letterZ && rest >= 0) return readMs + rest
  }
  const ms = Date.parse(text)
  if (text.length === isoLength && !Number.isNaN(ms) && isoTime(ms) === text) {
    readText = text.slice(0, -4)
    readMs = Math.floor(ms / 1_000) * 1_000
  }
  return ms
}

const [isoLength, letterZ, digitZero] = [24, 90, 48]
/** NaN: it is no digit. */
function digitAt(text: string, at: number): number {
  const digit = text.charCodeAt(at) - digitZero
  return digit >= 0 && digit <= 9 ? digit : Number.NaN
}
// Up to the point before the fraction, as `lastText`.
let readText = '1970-01-01T00:00:00.'
let readMs = 0

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
