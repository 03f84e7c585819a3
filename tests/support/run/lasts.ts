/**
 * How long something takes that a test plays: the next word of a node, a commit, a client that thinks. A busy machine
 * makes it longer: a test may ask that what follows took at least so long, and nothing may depend on its not taking longer.
 */
export const lasts = (ms: number) => Bun.sleep(ms)
