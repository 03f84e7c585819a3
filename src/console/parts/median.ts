import type { TrafficPoint } from '../../protocol/wire/admin/inspect.ts'

type Bucket = TrafficPoint['models'][number]['ttft_buckets'][number]

/** The median of what several steps have measured, read as the server reads it: evenly spread inside a bucket. null: nothing was. */
export function medianOf(buckets: readonly Bucket[]): number | null {
  const sums = new Map<string, Bucket>()
  for (const { above_ms, to_ms, count } of buckets) {
    const key = `${above_ms} ${to_ms}`
    sums.set(key, { above_ms, to_ms, count: count + (sums.get(key)?.count ?? 0) })
  }
  let left = buckets.reduce((sum, { count }) => sum + count, 0) / 2
  for (const { above_ms, to_ms, count } of [...sums.values()].toSorted((a, b) => a.above_ms - b.above_ms)) {
    if (left <= count) return above_ms + ((to_ms - above_ms) * left) / count
    left -= count
  }
  return null
}
