import { cheapest, type Fleet, fleetOf, type RouteCost, workOf } from '../placement/cost.ts'
import { type Work, workPassed } from '../placement/reading.ts'
import { type Awaited, routeWorthWaitingFor } from '../placement/slot-line.ts'
import { type Sleeping, worthWaking } from '../sleep/waking.ts'
import {
  hasSlot,
  isOwn,
  judge,
  type PlacementRequest,
  type RefusalCode,
  refusedOutright,
  verdictRank,
  verdicts,
} from './eligibility.ts'
import { triedWork } from './model-work.ts'
import type { Route, RoutingTable } from './routing.ts'

export type { PlacementRequest, RefusalCode } from './eligibility.ts'

export type Placement =
  | {
      readonly kind: 'placed'
      readonly route: Route
      /** `affinity`: it has some of the prompt in its cache, or had its session last. */
      readonly chosenBy: 'only' | 'affinity' | 'load'
      /** The routes it was chosen from. */
      readonly open: readonly Route[]
      /** Of these, in their order; null: only one route has the model. */
      readonly costs: readonly RouteCost[] | null
    }
  /**
   * Routes exist, but all of them are full, or one that is (`awaits`) is worth the wait: the prompt is in its cache, or the
   * model in its memory alone. A short one may help.
   */
  | { readonly kind: 'saturated'; readonly routes: readonly Route[]; readonly awaits: Awaited<Route> | null }
  /** Nodes that sleep could serve, and no other can now (§39). */
  | ({ readonly kind: 'asleep' } & Sleeping<Route>)
  | { readonly kind: 'refused'; readonly code: RefusalCode }

export type Placed = Extract<Placement, { kind: 'placed' }>

const noRoutes: readonly Route[] = []
const emptySide = { open: noRoutes, full: noRoutes }

/** Ejections are ignored when fewer than this share of a model's routes remain (§8). */
const remainingShareMin = 0.5

/** `base` without the routes that are held down or ejected, with the floors of §8. */
function withoutUnhealthy(base: readonly Route[], nowMs: number): readonly Route[] {
  return base.length < 2 || areWell(base, nowMs) ? base : healthiest(base, nowMs)
}

function areWell(base: readonly Route[], nowMs: number): boolean {
  for (const { heldUntilMs, load } of base) if (heldUntilMs > nowMs || load.ejectedUntilMs > nowMs) return false
  return true
}

function healthiest(base: readonly Route[], nowMs: number): readonly Route[] {
  const steady = base.filter((route) => route.heldUntilMs <= nowMs)
  const held = steady.length === 0 ? base : steady
  const remaining = held.filter((route) => route.load.ejectedUntilMs <= nowMs)
  return remaining.length < held.length * remainingShareMin ? held : remaining
}

const notIn = (exclude: ReadonlySet<string>, routes: readonly Route[]) =>
  routes.filter((route) => !exclude.has(route.profileId))
const common = (routes: readonly Route[], others: readonly Route[]) => routes.filter((route) => others.includes(route))

/**
 * Routes of one side that could serve, split by whether they can serve now. On the path of every request: what is rare stands in functions of its own, since one
 * with a closure in it makes an object for its variables at each call.
 */
export function openRoutes(
  ready: readonly Route[],
  request: PlacementRequest,
): { open: readonly Route[]; full: readonly Route[] } {
  if (ready.length === 0) return emptySide
  const untried = request.exclude.size === 0 ? ready : notIn(request.exclude, ready)
  const healthy = withoutUnhealthy(ready, request.nowMs)
  const candidates = healthy === ready ? untried : common(untried, healthy)
  // Every healthy route was tried, so an ejected one is better than none.
  const chosen = candidates.length === 0 ? untried : candidates
  if (chosen.every(hasSlot)) return { open: chosen, full: noRoutes }
  return { open: chosen.filter(hasSlot), full: chosen.filter((route) => !hasSlot(route)) }
}

/** The route with the least expected time to the first token (§29). */
function choose(open: readonly [Route, ...Route[]], request: PlacementRequest, fleet?: Fleet): Placed {
  const { prompt, matches, nowMs } = request
  if (open.length === 1 && prompt === null && !open[0].load.reading.cold) {
    return { kind: 'placed', route: open[0], chosenBy: 'only', open, costs: null }
  }
  const { route, cost, costs } = cheapest(open, prompt, matches, nowMs, fleet)
  const kept = cost.matchedUnits > 0 || matches.holder === route.cache.profileId
  const chosenBy = open.length === 1 ? 'only' : kept ? 'affinity' : 'load'
  return { kind: 'placed', route, chosenBy, open, costs }
}

export const isSome = (routes: readonly Route[]): routes is readonly [Route, ...Route[]] => routes.length > 0

/** True if the estimate fits into the context, or if the context is unknown. */
export const isRoomy = ({ contextLength }: Route, wanted: number) => contextLength === null || contextLength >= wanted

/** Own nodes come first. A context that may be too small comes last, because the estimate can be wrong. */
export function preferred(
  mine: readonly Route[],
  others: readonly Route[],
  { contextWanted: wanted }: PlacementRequest,
): readonly Route[] {
  const roomy = wanted === null ? noRoutes : firstRoomy(mine, others, wanted)
  if (roomy.length > 0) return roomy
  return mine.length > 0 ? mine : others
}

function firstRoomy(mine: readonly Route[], others: readonly Route[], wanted: number): readonly Route[] {
  const roomy = mine.filter((route) => isRoomy(route, wanted))
  return roomy.length > 0 ? roomy : others.filter((route) => isRoomy(route, wanted))
}

/** A slot there is likely to come free within the time that a request may wait for one. */
function freeSoon({ load, slotsTotal }: Route, queueWaitMs: number): boolean {
  return (load.durationEwmaMs ?? 0) / (slotsTotal ?? 1) <= queueWaitMs
}

/** Of the open routes those of the lowest rank; none while a slot of a lower one is worth the wait. */
function lowestRank(
  open: readonly Route[],
  full: readonly Route[],
  { queueWaitMs }: PlacementRequest,
): readonly Route[] {
  let rank = Number.POSITIVE_INFINITY
  let same = true
  for (const route of open) {
    if (route.rank !== rank && rank !== Number.POSITIVE_INFINITY) same = false
    rank = Math.min(rank, route.rank)
  }
  if (queueWaitMs !== null && full.length > 0 && anyBefore(full, rank, queueWaitMs)) return noRoutes
  return same ? open : ofRank(open, rank)
}

const anyBefore = (full: readonly Route[], rank: number, queueWaitMs: number) =>
  full.some((route) => route.rank < rank && freeSoon(route, queueWaitMs))
const ofRank = (routes: readonly Route[], rank: number) => routes.filter((route) => route.rank === rank)

/** The full routes of the side and the rank that would serve. */
function fullBeside(
  open: readonly Route[],
  { mine, others }: { readonly mine: readonly Route[]; readonly others: readonly Route[] },
  { contextWanted, access }: PlacementRequest,
): readonly Route[] {
  const [first] = open
  const side = (first === undefined ? mine.length > 0 : isOwn(first, access.customerId)) ? mine : others
  if (side.length === 0) return side
  const rank = first?.rank ?? Math.min(...side.map((route) => route.rank))
  if (first === undefined || contextWanted === null) return side.filter((route) => route.rank === rank)
  const roomy = isRoomy(first, contextWanted)
  return side.filter((route) => route.rank === rank && isRoomy(route, contextWanted) === roomy)
}

/** A call without a prompt reads nothing. */
const noUnits = { units: 0 }

/** The full route whose cache or memory makes it worth a wait; null if none is. */
function awaited(
  full: readonly Route[],
  placed: Placed | null,
  fleet: Fleet,
  { prompt, matches, nowMs, cacheWaitMs: waitMs }: PlacementRequest,
): Awaited<Route> | null {
  if (full.length === 0 || waitMs === null) return null
  if (prompt === null && placed?.route.load.reading.cold !== true) return null
  const asking = { prompt: prompt ?? noUnits, matches, nowMs, fleet, waitMs }
  if (placed === null) return routeWorthWaitingFor(full, null, asking)
  const { open, costs, route } = placed
  const cost = costs?.[open.indexOf(route)]
  return costs === null || cost === undefined
    ? null
    : routeWorthWaitingFor(full, { open, costs, totalMs: cost.totalMs, cold: cost.coldMs > 0 }, asking)
}

/**
 * Chooses the route of one call. Own nodes come first; those of others only follow if the policy lets a prompt leave.
 * Where no route is known to do this kind of work, an own one is tried of which that is only supposed. It is pure and on
 * the hot path: it reads the table and the loads and never waits.
 */
export function place(table: RoutingTable, request: PlacementRequest): Placement {
  const placement = placeKnown(table, request)
  const tried = placement.kind === 'refused' && placement.code === 'modality_not_supported'
  if (!tried || !triedWork.has(request.modality)) return placement
  const trial = placeKnown(table, { ...request, onTrial: true })
  return trial.kind === 'refused' ? placement : trial
}

function placeKnown(table: RoutingTable, request: PlacementRequest): Placement {
  const outright = refusedOutright(table, request)
  if (outright !== null) return { kind: 'refused', code: outright }
  const routes = table.byModel.get(request.modelId) ?? []
  const own: Route[] = []
  const others: Route[] = []
  let furthest = 0
  let visible: Route | null = null
  for (const route of routes) {
    const verdict = judge(route, request)
    const reached = verdictRank[verdict]
    if (reached > verdictRank.other_profile) visible ??= route
    if (reached > furthest) furthest = reached
    if (reached >= verdictRank.tried) (isOwn(route, request.access.customerId) ? own : others).push(route)
  }
  if (visible !== null && !request.access.policy.allows(visible.policyNames))
    return { kind: 'refused', code: 'model_not_allowed' }
  const mine = openRoutes(own, request)
  const foreign = isSome(mine.open) && request.contextWanted === null ? emptySide : openRoutes(others, request)
  const open = preferred(mine.open, foreign.open, request)
  const lowest = lowestRank(open, mine.full, request)
  const full = mine.full.length === 0 ? foreign.full : [...mine.full, ...foreign.full]
  if (full.length === 0 && isSome(lowest)) return choose(lowest, request)
  const beside = fullBeside(lowest, { mine: mine.full, others: foreign.full }, request)
  const fleet = fleetOf(lowest, beside)
  const placed = isSome(lowest) ? choose(lowest, request, fleet) : null
  const awaits = awaited(beside, placed, fleet, request)
  if (awaits === null && placed !== null) return placed
  if (full.length > 0) return { kind: 'saturated', routes: full, awaits }
  return noneServes(routes, request, furthest)
}

/** Nobody can serve now. Where awake nodes have been tried in vain, sleeping ones are what is left. */
function noneServes(routes: readonly Route[], request: PlacementRequest, furthest: number): Placement {
  const sleepers = furthest < verdictRank.asleep ? [] : routes.filter((route) => judge(route, request) === 'asleep')
  const sleeping = worthWaking(sleepers, request)
  if (sleeping !== null) return { kind: 'asleep', ...sleeping }
  return { kind: 'refused', code: verdicts[furthest]?.code ?? 'model_not_found' }
}

/**
 * A call goes where it was placed, and past the others, of which one is doubted for it. Its work there; null: there was no choice,
 * or no prompt is known.
 */
export function takePlace(
  { route, open, costs }: Placed,
  { prompt, nowMs }: PlacementRequest,
  random: () => number,
): Work | null {
  const passed = open[Math.floor(random() * open.length)]
  if (passed !== undefined && passed !== route) workPassed(passed.load.reading, nowMs)
  const cost = costs?.[open.indexOf(route)]
  return cost === undefined || prompt === null ? null : workOf(route, cost, prompt, nowMs)
}
