export interface ServerTimes {
  readonly backoffMs: number
  readonly stopGraceMs: number
  /** Between two looks at the health of a server that starts. */
  readonly healthMs: number
  /** A model that works gives way to one that waits after as long as a load takes, and not before this. */
  readonly yieldMsMin: number
  /** Between two looks at the memory of the processes. */
  readonly measureMs: number
  /** Between two looks at `models.json`. */
  readonly fileMs: number
}
export const serverTimes: ServerTimes = {
  backoffMs: 5_000,
  stopGraceMs: 10_000,
  healthMs: 100,
  yieldMsMin: 2_000,
  measureMs: 10_000,
  fileMs: 1_000,
}
