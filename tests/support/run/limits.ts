/**
 * How long a test waits for what must come. It says nothing of how fast something is, which bench/ measures: only a fault
 * takes so long, on a busy machine too.
 */
export const waitLimitMs = 60_000

/** How long a test may take, or a hook of tests, that says nothing else: several such waits, one after the other. */
export const testLimitMs = Number(process.env.PENSTOCK_TEST_TIMEOUT_MS ?? 5 * waitLimitMs)
