import type { Point } from './history.ts'

/** A range is not extended to an end that is further from its nearest point than this multiple of the points' distance. */
const nearPoints = 1.1

/**
 * How much a counter rose in the range, as Prometheus has it (`extrapolatedRate` of its `promql/functions.go`): what was seen between the first
 * and the last point, carried on to the ends of the range where points are near, never below 0. A fall is a counter that began
 * anew. null: there are fewer than two points.
 */
export function riseOf(points: readonly Point[], fromMs: number, toMs: number): number | null {
  const [first, last] = [points[0], points.at(-1)]
  if (first === undefined || last === undefined || points.length < 2) return null
  let rise = last.value - first.value
  for (const [at, { value }] of points.entries()) {
    const before = points[at - 1]
    if (before !== undefined && value < before.value) rise += before.value
  }
  const seenMs = last.atMs - first.atMs
  const betweenMs = seenMs / (points.length - 1)
  const filled = (gapMs: number) => (gapMs < betweenMs * nearPoints ? gapMs : betweenMs / 2)
  const sinceZeroMs = rise > 0 && first.value >= 0 ? seenMs * (first.value / rise) : Number.POSITIVE_INFINITY
  const beforeMs = filled(Math.min(first.atMs - fromMs, sinceZeroMs))
  const afterMs = filled(toMs - last.atMs)
  return (rise * (seenMs + beforeMs + afterMs)) / seenMs
}

export const changesOf = (points: readonly Point[]): number =>
  points.filter(({ value }, at) => at > 0 && value !== points[at - 1]?.value).length

/** A bucket of a histogram: how many observations are at most `bound`. */
export interface Bucket {
  readonly bound: number
  readonly count: number
}

/** As `histogram_quantile` of Prometheus; NaN: nothing was observed, or the buckets do not say how much. */
export function quantileOf(share: number, buckets: readonly Bucket[]): number {
  const sorted = buckets.toSorted((a, b) => a.bound - b.bound)
  const last = sorted.at(-1)
  if (last === undefined || last.bound !== Number.POSITIVE_INFINITY || sorted.length < 2 || last.count === 0)
    return Number.NaN
  const rank = share * last.count
  const at = sorted.findIndex(({ count }) => count >= rank)
  const found = sorted[at]
  if (found === undefined || at === sorted.length - 1) return sorted.at(-2)?.bound ?? Number.NaN
  const before = sorted[at - 1]
  if (before === undefined && found.bound <= 0) return found.bound
  const [lower, below] = [before?.bound ?? 0, before?.count ?? 0]
  return lower + ((found.bound - lower) * (rank - below)) / (found.count - below)
}
