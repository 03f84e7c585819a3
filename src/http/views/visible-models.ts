import type { Access } from '../../actors/accounts/access.ts'
import { brand } from '../../brand.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ModelList } from '../../protocol/wire/inference/models.ts'

/** True if the route serves its model now. A route that is ejected, or whose node is held down, does not. */
export const serves = (route: Route, nowMs: number) =>
  route.nodeState === 'ready' && route.ready && route.heldUntilMs <= nowMs && route.load.ejectedUntilMs <= nowMs

/**
 * The routes that everybody may know: models with a live, eligible profile on a public node (specification, model list
 * rule 1).
 */
export function publicRoutes(table: RoutingTable, nowMs: number): readonly Route[] {
  return table.routes.filter((route) => route.visibility === 'public' && serves(route, nowMs))
}

/**
 * The routes that the account's own nodes serve now, private ones included. Node scope, route tiers and the model
 * policies of account and key filter them (specification, model list rule 2).
 */
export function accountRoutes(table: RoutingTable, access: Access, nowMs: number): readonly Route[] {
  const { nodeScope, routeTiers, allows } = access.policy
  return table.routes.filter(
    (route) =>
      route.customerId === access.customerId &&
      serves(route, nowMs) &&
      (nodeScope === null || nodeScope.has(route.nodeId)) &&
      (routeTiers === null || routeTiers.has(route.nodeClass)) &&
      allows(route.modelNames),
  )
}

/** Sorted by id. `created` is the newest measurement among the routes that the caller can see. */
export function modelList(routes: readonly Route[]): ModelList {
  const created = new Map<string, number>()
  for (const { modelId, measuredAt } of routes) {
    created.set(modelId, Math.max(created.get(modelId) ?? 0, measuredAt))
  }
  const ids = [...created.keys()].sort()
  return {
    object: 'list',
    data: ids.map((id) => ({ id, object: 'model', created: created.get(id) ?? 0, owned_by: brand })),
  }
}
