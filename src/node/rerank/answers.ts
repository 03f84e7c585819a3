/** On every answer of the agent (§1). */
export const baseHeaders = { 'x-content-type-options': 'nosniff', 'cache-control': 'no-store' } as const
/** For the log: whoever asked is gone. */
export const clientClosedStatus = 499
