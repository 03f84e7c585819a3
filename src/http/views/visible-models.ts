import type { Access } from '../../actors/accounts/access.ts'
import { brand } from '../../brand.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { AnthropicModel, Model } from '../../protocol/wire/inference/models.ts'
import { secondMs } from '../../time.ts'

/** Serves this model right now: a node that is held down for flapping or a route that is ejected does not. */
export const serves = (route: Route, nowMs: number) =>
  route.nodeState === 'ready' && route.ready && route.heldUntilMs <= nowMs && route.load.ejectedUntilMs <= nowMs

/** What everybody may know of: chat models with a live, eligible profile on a public machine (specification, model list rule 1). */
export function publicRoutes(table: RoutingTable, nowMs: number): readonly Route[] {
  return table.routes.filter(
    (route) => route.visibility === 'public' && route.modality === 'chat' && serves(route, nowMs),
  )
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
export function modelsOf(routes: readonly Route[]): readonly Model[] {
  const byId = Map.groupBy(routes, ({ modelId }) => modelId)
  return [...byId.keys()].sort().map((id) => modelOf(id, byId.get(id) ?? []))
}

function modelOf(id: string, routes: readonly Route[]): Model {
  const contexts = routes.flatMap(({ contextLength }) => contextLength ?? [])
  const told = routes.flatMap(({ loaded }) => loaded ?? [])
  return {
    id,
    object: 'model',
    created: Math.max(...routes.map(({ measuredAt }) => measuredAt)),
    owned_by: brand,
    svc: {
      modality: routes[0]?.modality ?? 'chat',
      context_length: contexts.length === 0 ? null : Math.max(...contexts),
      loaded: told.length === 0 ? null : told.includes(true),
    },
  }
}

/** Of Anthropic's list: a model has a name and a day. */
export function anthropicModel({ id, created }: Model): AnthropicModel {
  return { type: 'model', id, display_name: id, created_at: new Date(created * secondMs).toISOString() }
}
