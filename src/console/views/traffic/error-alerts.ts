/** A minute with its requests, and how many of them ended with a 5xx. */
export interface Minute {
  /** Unix ms. */
  readonly atMs: number
  readonly requests: number
  readonly failed: number
}

/** `PenstockErrors` of ops/alerts.yaml: the share of errors, over this range of minutes, for this number of minutes. */
export const errorShare = 0.05
export const windowMinutes = 5
export const forMinutes = 5
const minuteMs = 60_000

/** When the alert about errors began to fire, Unix ms. `minutes`: oldest first; one without requests may be absent. */
export function errorAlerts(minutes: readonly Minute[]): readonly number[] {
  const byTime = new Map(minutes.map((each) => [each.atMs, each]))
  const [first, last] = [minutes[0]?.atMs, minutes.at(-1)?.atMs]
  if (first === undefined || last === undefined) return []
  const found: number[] = []
  let held = 0
  for (let atMs = first; atMs <= last; atMs += minuteMs) {
    const window = Array.from({ length: windowMinutes }, (_, back) => byTime.get(atMs - back * minuteMs))
    const sum = (of: (minute: Minute) => number) => window.reduce((all, each) => all + (each ? of(each) : 0), 0)
    const requests = sum((each) => each.requests)
    held = requests > 0 && sum((each) => each.failed) / requests > errorShare ? held + 1 : 0
    if (held === forMinutes) found.push(atMs)
  }
  return found
}
