import type { MixtureDeadlines } from './context.ts'
import { isStrategyName, strategies } from './strategies/registry.ts'

/** The time that is kept for the answer if no aggregator follows (§7), ms. */
const closingMs = 1_000
/** The experts' share of the time if an aggregator follows (§7). */
const expertsShare = 0.65

/** `given` is the unchecked `svc.mixture`. `elapsedMs` is the time since the start of the request. */
export function mixtureDeadlines(given: unknown, totalMs: number, elapsedMs: number): MixtureDeadlines {
  const named = typeof given === 'object' && given !== null && 'strategy' in given ? given.strategy : null
  const aggregates = isStrategyName(named) && strategies[named].kind === 'aggregating'
  const expertsMs = aggregates ? totalMs * expertsShare : totalMs - closingMs
  return { expertsMs: Math.max(0, expertsMs - elapsedMs), wallMs: Math.max(0, totalMs - elapsedMs) }
}
