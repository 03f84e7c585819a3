import type { Access } from '../../actors/accounts/access.ts'
import { brand } from '../../brand.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { AnthropicModel, Model } from '../../protocol/wire/inference/models.ts'
import { secondMs } from '../../time.ts'

/** True if the route serves its model now. A route that is ejected, or whose node is held down, does not. */
export const serves = (route: Route, nowMs: number) =>
  route.nodeState === 'ready' && route.ready && route.heldUntilMs <= nowMs && route.load.ejectedUntilMs <= nowMs

/**
 * The routes that everybody may know: chat models with a live, eligible profile on a public node (specification, model
 * list rule 1).
 */
export function publicRoutes(table: RoutingTable, nowMs: number): readonly Route[] {
  return table.routes.filter(
    (route) => route.visibility === 'public' && route.modality === 'chat' && serves(route, nowMs),
  )
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

/** Sorted by id. */
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
    created: Math.min(...routes.map(({ knownAt }) => knownAt)),
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
