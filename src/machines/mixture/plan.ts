import { type Placement, type PlacementRequest, place } from '../rules/placement.ts'
import type { Route, RoutingTable } from '../rules/routing.ts'
import type { PlannedExpert } from './types.ts'

/** The table after the planned calls, so that the experts of one model spread over its nodes. */
function withPlanned(table: RoutingTable, modelId: string, planned: ReadonlyMap<string, number>): RoutingTable {
  if (planned.size === 0) return table
  const routes = (table.byModel.get(modelId) ?? []).map((route): Route => {
    const more = planned.get(route.profileId) ?? 0
    return more === 0 ? route : { ...route, load: { ...route.load, inFlight: route.load.inFlight + more } }
  })
  return { ...table, byModel: new Map([[modelId, routes]]) }
}

export function plannedOf(placement: Placement): PlannedExpert {
  if (placement.kind === 'placed') return { kind: 'placed', route: placement.route }
  // A sub-call wakes a sleeping node and waits for it, as any call does.
  return { kind: placement.kind === 'refused' ? 'no_node' : 'full' }
}

/** Places each expert separately, in their order. Calls `decided` for every placement. */
export function planExperts(
  table: RoutingTable,
  requests: readonly PlacementRequest[],
  decided: (request: PlacementRequest, placement: Placement) => void,
): readonly PlannedExpert[] {
  const planned = new Map<string, number>()
  return requests.map((request): PlannedExpert => {
    const placement = place(withPlanned(table, request.modelId, planned), request)
    decided(request, placement)
    if (placement.kind !== 'placed') return plannedOf(placement)
    const { profileId } = placement.route
    planned.set(profileId, (planned.get(profileId) ?? 0) + 1)
    const route = table.byModel.get(request.modelId)?.find((known) => known.profileId === profileId)
    return { kind: 'placed', route: route ?? placement.route }
  })
}
