/**
 * A quantile of observations that are counted by bucket, read as Prometheus' `histogram_quantile` does: evenly spread
 * inside a bucket. null without observations; beyond the last bound, that bound.
 */
export function quantile(share: number, counts: Float64Array, bounds: readonly number[]): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0)
  if (total === 0) return null
  let left = share * total
  for (const [at, bound] of bounds.entries()) {
    const count = counts[at] ?? 0
    if (left <= count && count > 0) {
      const lower = at === 0 ? 0 : (bounds[at - 1] ?? 0)
      return lower + ((bound - lower) * left) / count
    }
    left -= count
  }
  return bounds.at(-1) ?? null
}
