/** How long to wait after failures in a row: twice as long after each, up to a bound. Equal bounds: always the same. */
export interface Backoff {
  readonly firstMs: number
  readonly maxMs: number
}

/** The wait after this many failures in a row, ms. After none it is the first. */
export const backoffMs = ({ firstMs, maxMs }: Backoff, failures: number): number =>
  Math.min(maxMs, firstMs * 2 ** Math.max(0, failures - 1))

/** Spreads a wait by up to `share` of it either way, so that many who began together do not stay together. `random`: 0 to 1. */
export const jittered = (ms: number, share: number, random: number): number => ms * (1 - share + 2 * share * random)
