/**
 * What Bun and its allocator read from the environment before any code of ours runs, so that whatever starts a gateway sets it. What is
 * set already counts. `scripts/run.mjs` has the same for launchers that run under Node.
 */
export const bunSettings = {
  /** Bun lets 256 fetches run at once unless it is told otherwise; this is its maximum. */
  BUN_CONFIG_MAX_HTTP_REQUESTS: '65535',
  /**
   * ms. Whenever a thread has nothing to do, but not sooner again, the allocator gives free memory within its pages back to the system.
   * At its own 100 ms the next requests of a gateway with pauses fetch it again: a quarter of a long body's processor time (bench/notebook).
   */
  MIMALLOC_PURGE_HOLES_MIN_INTERVAL: '10000',
} as const

/** The same as lines of a unit or of an image. */
export const bunSettingLines: readonly string[] = Object.entries(bunSettings).map(([name, value]) => `${name}=${value}`)
