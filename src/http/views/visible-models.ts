import type { Access } from '../../actors/accounts/access.ts'
import { brand } from '../../brand.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ModelList } from '../../protocol/wire/inference/models.ts'

/** Serves this model right now: a node that is held down for flapping or a route that is ejected does not. */
export const serves = (route: Route, nowMs: number) =>
  route.nodeState === 'ready' && route.ready && route.heldUntilMs <= nowMs && route.load.ejectedUntilMs <= nowMs

/** What everybody may know of: models with a live, eligible profile on a public machine (specification, model list rule 1). */
export function publicRoutes(table: RoutingTable, nowMs: number): readonly Route[] {
  return table.routes.filter((route) => route.visibility === 'public' && serves(route, nowMs))
}

/**
 * What the account's own machines serve right now, private ones included; node scope, route tiers and the model policy
 * of account and key filter it (specification, model list rule 2).
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

/** Sorted by id; `created` is the freshest benchmark among the routes the caller can see. */
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
