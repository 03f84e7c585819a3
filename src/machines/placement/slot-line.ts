import type { Prompt } from './blocks.ts'
import type { Matches } from './cache-view.ts'
import { type Candidate, costOf, type Fleet, type RouteCost } from './cost.ts'
import type { Reading } from './reading.ts'

/** A full route that a request waits for, because its cache holds the prompt's beginning. */
export interface Awaited<R extends Candidate> {
  readonly route: R
  readonly cost: RouteCost
  /** The routes that were weighed, and their costs in the same order. */
  readonly open: readonly R[]
  readonly costs: readonly RouteCost[]
}

/** A wait must save at least this time, because estimates are not more exact. */
const savedMsMin = 10
/**
 * A request gives up after this multiple of the expected wait. Half of all waits are longer than expected: with a
 * patience of one, requests move to other nodes and evict other requests' caches there, and those then wait longer,
 * too.
 */
const patience = 4
const patienceMsMin = 50

/** How long a request waits for it before it takes an open route. */
export const patienceMs = ({ cost }: Awaited<Candidate>) => Math.max(patienceMsMin, patience * cost.slotWaitMs)

/** The alternative with which full routes are compared. */
export interface Elsewhere<R extends Candidate> {
  readonly open: readonly R[]
  readonly costs: readonly RouteCost[]
  /** Of the open routes' choice. */
  readonly totalMs: number
  /** The choice has to load the model. */
  readonly cold: boolean
}

export interface Asking {
  readonly prompt: Pick<Prompt, 'units'>
  readonly matches: Matches
  readonly nowMs: number
  readonly fleet: Fleet
  /** Longest wait for the slot, ms. */
  readonly waitMs: number
}

/**
 * The full route that has part of the prompt in its cache, or the model in memory where the others would have to load it, and
 * with its wait for a slot answers sooner than the best open route. `elsewhere` null: no route is open; then it answers sooner
 * than the full routes without the prompt. null if no such route exists or none expects a slot in time.
 */
export function routeWorthWaitingFor<R extends Candidate>(
  full: readonly R[],
  elsewhere: Elsewhere<R> | null,
  { prompt, matches, nowMs, fleet, waitMs }: Asking,
): Awaited<R> | null {
  const held = (route: R) => (route.load.reading.cold ? 0 : matches.unitsOf(route.cache.profileId))
  const saves = (route: R) => held(route) > 0 || (elsewhere?.cold === true && !route.load.reading.cold)
  if (!full.some(saves)) return null
  const costs: RouteCost[] = []
  let best = -1
  let leastMs = Number.POSITIVE_INFINITY
  let elsewhereMs = elsewhere?.totalMs ?? Number.POSITIVE_INFINITY
  for (const [at, route] of full.entries()) {
    const matched = held(route)
    const cost = costOf(route, fleet, prompt.units, matched, nowMs)
    costs.push(cost)
    if (saves(route) && cost.slotWaitMs <= waitMs && cost.totalMs < leastMs) {
      leastMs = cost.totalMs
      best = at
    } else if (matched === 0 && elsewhere === null) elsewhereMs = Math.min(elsewhereMs, cost.totalMs)
  }
  const route = full[best]
  const cost = costs[best]
  if (route === undefined || cost === undefined || leastMs + savedMsMin > elsewhereMs) return null
  if (elsewhere === null) return { route, cost, open: full, costs }
  return { route, cost, open: [...elsewhere.open, ...full], costs: [...elsewhere.costs, ...costs] }
}

/** A place in the queue of this route, and leaving it. Its reading counts before that of later placements. */
export interface LinePlace {
  readonly profileId: string
  readonly reading: Reading
  readonly ownMs: number
}

export function joinQueue({ reading, ownMs }: LinePlace): void {
  reading.awaited++
  reading.awaitedMs += ownMs
}

export function leaveQueue({ reading, ownMs }: LinePlace): void {
  reading.awaited--
  reading.awaitedMs = reading.awaited === 0 ? 0 : Math.max(0, reading.awaitedMs - ownMs)
}
