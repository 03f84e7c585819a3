import {
  hasSlot,
  isOwn,
  judge,
  type PlacementRequest,
  type RefusalCode,
  refusedOutright,
  triedSide,
  verdictRank,
  verdicts,
} from './eligibility.ts'
import type { Route, RoutingTable } from './routing.ts'

export type { PlacementRequest, RefusalCode } from './eligibility.ts'

export type Placement =
  | {
      readonly kind: 'placed'
      readonly route: Route
      readonly chosenBy: 'only' | 'affinity' | 'load'
      readonly considered: number
    }
  /** Routes exist, but all of them are full. A short wait may help. */
  | { readonly kind: 'saturated'; readonly routes: readonly Route[] }
  | { readonly kind: 'refused'; readonly code: RefusalCode }

/** The assumed number of slots of a runtime that does not report it. Such a runtime queues by itself. */
export const slotsAssumed = 4
/** A node that has the prefix in its cache is kept while it is at most this much busier than the mean (§8). */
export const affinityLoadMax = 1.25
/** Ejections are ignored when fewer than this share of a model's routes remain (§8). */
const remainingShareMin = 0.5

/** `base` without the routes that are held down or ejected, with the floors of §8. */
function withoutUnhealthy(base: readonly Route[], nowMs: number): readonly Route[] {
  const isWell = (route: Route) => route.heldUntilMs <= nowMs && route.load.ejectedUntilMs <= nowMs
  if (base.length < 2 || base.every(isWell)) return base
  const steady = base.filter((route) => route.heldUntilMs <= nowMs)
  const held = steady.length === 0 ? base : steady
  const remaining = held.filter((route) => route.load.ejectedUntilMs <= nowMs)
  return remaining.length < held.length * remainingShareMin ? held : remaining
}

/** Routes of one side that could serve, split by whether they can serve now. */
export function openRoutes(
  ready: readonly Route[],
  request: PlacementRequest,
): { open: readonly Route[]; full: readonly Route[] } {
  const untried = request.exclude.size === 0 ? ready : ready.filter((route) => !request.exclude.has(route.profileId))
  const healthy = withoutUnhealthy(ready, request.nowMs)
  const candidates = healthy === ready ? untried : untried.filter((route) => healthy.includes(route))
  // Every healthy route was tried, so an ejected one is better than none.
  const chosen = candidates.length === 0 ? untried : candidates
  if (chosen.every(hasSlot)) return { open: chosen, full: [] }
  return { open: chosen.filter(hasSlot), full: chosen.filter((route) => !hasSlot(route)) }
}

const slotsOf = (route: Route) => route.slotsTotal ?? slotsAssumed
const busyness = (route: Route) => (route.load.inFlight + 1) / slotsOf(route)

/** The mean of the measured times, so that a node without a measurement is neither avoided nor flooded. */
export function assumedTtft(routes: readonly Route[]): number {
  let sum = 0
  let known = 0
  for (const { load } of routes) {
    if (load.ttftEwmaMs === null) continue
    sum += load.ttftEwmaMs
    known++
  }
  return known === 0 ? 1 : sum / known
}

/** Lower is better. `ttftMs` is an assumption if the route has no measurement. */
export const score = (route: Route, ttftMs: number) => busyness(route) * (route.load.ttftEwmaMs ?? ttftMs)

function lighter(a: Route, b: Route, ttftMs: number): Route {
  const difference = score(a, ttftMs) - score(b, ttftMs)
  if (difference !== 0) return difference < 0 ? a : b
  if (a.nodeId !== b.nodeId) return a.nodeId < b.nodeId ? a : b
  return a.profileId <= b.profileId ? a : b
}

function withAffinity(open: readonly Route[], nodeId: string, ttftMs: number): Route | null {
  let favourite: Route | null = null
  let sum = 0
  for (const route of open) {
    sum += busyness(route)
    if (route.nodeId === nodeId) favourite = favourite === null ? route : lighter(favourite, route, ttftMs)
  }
  if (favourite === null) return null
  // One request more than the share: with a few slots a node, the bare factor gives up at the second one (decision 0006).
  const most = (affinityLoadMax * sum) / open.length + 1 / slotsOf(favourite)
  return busyness(favourite) <= most ? favourite : null
}

/** Power of two choices among at least one route. `random`: uniform in [0, 1). */
function choose(open: readonly [Route, ...Route[]], request: PlacementRequest, random: () => number): Placement {
  const considered = open.length
  const [first] = open
  if (considered === 1) return { kind: 'placed', route: first, chosenBy: 'only', considered }
  const ttftMs = assumedTtft(open)
  if (request.affinityNodeId !== null) {
    const favourite = withAffinity(open, request.affinityNodeId, ttftMs)
    if (favourite !== null) return { kind: 'placed', route: favourite, chosenBy: 'affinity', considered }
  }
  const i = Math.floor(random() * considered)
  const j = (i + 1 + Math.floor(random() * (considered - 1))) % considered
  return { kind: 'placed', route: lighter(open[i] ?? first, open[j] ?? first, ttftMs), chosenBy: 'load', considered }
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
  if (wanted !== null) {
    for (const side of [mine, others]) {
      const roomy = side.filter((route) => isRoomy(route, wanted))
      if (roomy.length > 0) return roomy
    }
  }
  return mine.length > 0 ? mine : others
}

/**
 * Chooses the route of one call. Own nodes come first; those of others only follow if the policy lets a prompt leave.
 * It is pure and on the hot path: it reads the table and the loads and never waits.
 */
export function place(table: RoutingTable, request: PlacementRequest, random: () => number): Placement {
  const outright = refusedOutright(table, request)
  if (outright !== null) return { kind: 'refused', code: outright }
  const routes = table.byModel.get(request.modelId) ?? []
  const side = triedSide(routes, request)
  const own: Route[] = []
  const others: Route[] = []
  let furthest = 0
  let visible: Route | null = null
  for (const route of routes) {
    const verdict = judge(route, request, side)
    const reached = verdictRank[verdict]
    if (reached > verdictRank.other_profile) visible ??= route
    if (reached > furthest) furthest = reached
    if (reached >= verdictRank.tried) (isOwn(route, request.access.customerId) ? own : others).push(route)
  }
  if (visible !== null && !request.access.policy.allows(visible.modelNames))
    return { kind: 'refused', code: 'model_not_allowed' }
  const mine = openRoutes(own, request)
  if (isSome(mine.open) && request.contextWanted === null) return choose(mine.open, request, random)
  const foreign = openRoutes(others, request)
  const open = preferred(mine.open, foreign.open, request)
  if (isSome(open)) return choose(open, request, random)
  const full = mine.full.length === 0 ? foreign.full : [...mine.full, ...foreign.full]
  if (full.length > 0) return { kind: 'saturated', routes: full }
  return { kind: 'refused', code: verdicts[furthest]?.code ?? 'model_not_found' }
}
