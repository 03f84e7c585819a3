/** A straight line through points by least squares. */
export interface LineFit {
  /** Of y per unit of x. */
  readonly slope: number
  /** Standard error of the slope: how far chance alone may move it. */
  readonly error: number
}

export function fitLine(points: readonly (readonly [x: number, y: number])[]): LineFit {
  const n = points.length
  if (n < 3) return { slope: 0, error: Number.POSITIVE_INFINITY }
  const mean = (of: (point: readonly [number, number]) => number) => points.reduce((sum, p) => sum + of(p), 0) / n
  const [x, y] = [mean(([at]) => at), mean(([, value]) => value)]
  const spread = points.reduce((sum, [at]) => sum + (at - x) ** 2, 0)
  const slope = points.reduce((sum, [at, value]) => sum + (at - x) * (value - y), 0) / spread
  const rest = points.reduce((sum, [at, value]) => sum + (value - y - slope * (at - x)) ** 2, 0)
  return { slope, error: Math.sqrt(rest / (n - 2) / spread) }
}
