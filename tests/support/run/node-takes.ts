/**
 * How long a node takes to say the next thing. A busy machine makes it longer: a test may ask that something took at
 * least so long, and nothing may depend on its not taking longer.
 */
export const nodeTakes = (ms: number) => Bun.sleep(ms)
