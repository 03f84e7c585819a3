/** Weight of the newest value in the moving means. */
const ewmaWeight = 0.2

/** The exponentially weighted mean with one more value. null: there was none before. */
export const ewma = (old: number | null, fresh: number) => (old === null ? fresh : old + ewmaWeight * (fresh - old))
