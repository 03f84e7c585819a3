import type { RuntimeStatus } from '../runtimes/runtime.ts'
import type { RuntimeReport } from './node-watch.ts'

/** The first rank keeps the name that a server with one has. */
const labelOf = (rank: number) => (rank === 0 ? '' : `rank ${rank}`)

/**
 * A server with data-parallel ranks, as one runtime for each of them: each has its own queue and its own cache, and a request can
 * name the one that it is for. Any other server is one runtime.
 */
export function rankReports(status: RuntimeStatus): readonly RuntimeReport[] {
  const { ranks, ...whole } = status
  if (ranks === undefined) return [{ label: '', status }]
  return ranks.map(({ running, queueDepth, cacheTokens }, rank) => {
    const models = whole.models.map((model) => ({ ...model, cacheTokens: cacheTokens ?? model.cacheTokens ?? null }))
    const load = { ...(running === null ? {} : { running }), queueDepth }
    return { label: labelOf(rank), status: { ...whole, models, ...load, rank } }
  })
}

/** A server of which all is asked at once. */
export const wholeReport = (status: RuntimeStatus): readonly RuntimeReport[] => [{ label: '', status }]
