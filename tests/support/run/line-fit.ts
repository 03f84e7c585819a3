/** A straight line through points by least squares. */
export interface LineFit {
  /** Of y per unit of x. */
  readonly slope: number
  /**
   * Standard error of the slope: how far chance alone may move it. What is left beside the line counts as fewer points where each is near the
   * one before it (n (1 − r) / (1 + r), Santer et al. 2000, https://doi.org/10.1029/1999JD901105): a wave is no trend.
   */
  readonly error: number
}

export function fitLine(points: readonly (readonly [x: number, y: number])[]): LineFit {
  const n = points.length
  if (n < 3) return { slope: 0, error: Number.POSITIVE_INFINITY }
  const mean = (of: (point: readonly [number, number]) => number) => points.reduce((sum, p) => sum + of(p), 0) / n
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)]
  const spread = points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
  const slope = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0) / spread
  const left = points.map(([at, value]) => value - y - slope * (at - x))
  const rest = left.reduce((sum, value) => sum + value ** 2, 0)
  const near = left.reduce((sum, value, at) => sum + value * (left[at - 1] ?? 0), 0) / rest
  const independent = Math.max(3, near > 0 ? (n * (1 - near)) / (1 + near) : n)
  return { slope, error: rest === 0 ? 0 : Math.sqrt(rest / (independent - 2) / spread) }
}
