import type { RouteCost } from '../placement/cost.ts'
import { isOwn, judge, type PlacementRequest, refusedOutright, type Verdict, verdictRank } from './eligibility.ts'
import { isRoomy, openRoutes, type Placement, preferred } from './placement.ts'
import type { Route, RoutingTable } from './routing.ts'

export interface ExplainedRoute {
  readonly node_id: string
  readonly profile_id: string
  readonly node_state: string
  readonly verdict: 'chosen' | 'eligible' | 'refused'
  /** The reason of the refusal or of the choice. `less_preferred` is an eligible route that was not chosen. */
  readonly reason:
    | Exclude<Verdict, 'open'>
    | 'model_policy'
    | 'pin_forbidden'
    | 'held_down'
    | 'ejected'
    | 'own_machines_first'
    /** A node of a lower rank serves, or will soon. */
    | 'higher_rank'
    /** The route's context may be too small for the prompt, and another route's is not. */
    | 'context_tight'
    | 'only'
    | 'affinity'
    | 'load'
    | 'less_preferred'
    /** It sleeps, no other can serve, and it is being woken. */
    | 'woken'
  readonly own: boolean
  readonly in_flight: number
  readonly slots_total: number | null
  readonly ttft_ewma_ms: number | null
  readonly tokens_per_second: number | null
  /** What makes up the expected time to the first token; null: it was not among those that were weighed. */
  readonly cost: RouteCost | null
}

/** Whose costs were compared. */
function weighedIn(
  placement: Placement,
): { readonly open: readonly Route[]; readonly costs: readonly RouteCost[] | null } | null {
  switch (placement.kind) {
    case 'placed':
      return placement
    case 'saturated':
      return placement.awaits
    case 'asleep':
      return { open: [placement.route], costs: [placement.cost] }
    case 'refused':
      return null
  }
}

/**
 * Why each route of the model was chosen or refused, judged on the table as given. `placement`: what `place` answered
 * for the same request; its dice are not thrown again.
 */
export function explainPlacement(
  table: RoutingTable,
  request: PlacementRequest,
  placement: Placement,
): readonly ExplainedRoute[] {
  const routes = table.byModel.get(request.modelId) ?? []
  const outright = refusedOutright(table, request)
  const { customerId, policy } = request.access
  const ready = (own: boolean) =>
    routes.filter(
      (route) => isOwn(route, customerId) === own && verdictRank[judge(route, request)] >= verdictRank.tried,
    )
  const mine = openRoutes(ready(true), request)
  const foreign = openRoutes(ready(false), request)
  const open = preferred(mine.open, foreign.open, request)
  const choice = weighedIn(placement)
  const costs = choice?.costs ?? null
  const weighed = choice?.open.map(({ profileId }) => profileId) ?? []
  const reasonOf = (route: Route, own: boolean): Pick<ExplainedRoute, 'verdict' | 'reason'> => {
    if (placement.kind === 'placed' && placement.route.profileId === route.profileId) {
      return { verdict: 'chosen', reason: placement.chosenBy }
    }
    if (placement.kind === 'asleep' && placement.route.profileId === route.profileId) {
      return { verdict: 'chosen', reason: 'woken' }
    }
    const verdict = judge(route, request)
    if (outright !== null) return { verdict: 'refused', reason: 'pin_forbidden' }
    if (verdictRank[verdict] > verdictRank.other_profile && !policy.allows(route.policyNames))
      return { verdict: 'refused', reason: 'model_policy' }
    if (verdict !== 'open') return { verdict: 'refused', reason: verdict }
    if (open.includes(route)) {
      return weighed.includes(route.profileId)
        ? { verdict: 'eligible', reason: 'less_preferred' }
        : { verdict: 'refused', reason: 'higher_rank' }
    }
    if ((own ? mine : foreign).open.includes(route)) {
      const { contextWanted: wanted } = request
      return wanted !== null && !isRoomy(route, wanted)
        ? { verdict: 'eligible', reason: 'context_tight' }
        : { verdict: 'refused', reason: 'own_machines_first' }
    }
    return { verdict: 'refused', reason: route.heldUntilMs > request.nowMs ? 'held_down' : 'ejected' }
  }
  return routes.map((route) => {
    const own = isOwn(route, customerId)
    return {
      node_id: route.nodeId,
      profile_id: route.profileId,
      node_state: route.nodeState,
      ...reasonOf(route, own),
      own,
      in_flight: route.load.inFlight,
      slots_total: route.slotsTotal,
      ttft_ewma_ms: route.load.ttftEwmaMs,
      tokens_per_second: route.load.tokensPerSecond,
      cost: costs?.[weighed.indexOf(route.profileId)] ?? null,
    }
  })
}
