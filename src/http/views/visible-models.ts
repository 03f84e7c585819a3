import type { Access } from '../../actors/accounts/access.ts'
import { operations } from '../../actors/operations/registry.ts'
import { brand } from '../../brand.ts'
import type { CustomerId } from '../../ids.ts'
import { isAllowed, isOwn, isVisible } from '../../machines/rules/eligibility.ts'
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
    (route) => route.visibility === 'public' && route.serves.includes('chat') && serves(route, nowMs),
  )
}

/** What other people's nodes may be asked for. */
const shared = new Set(operations.filter(({ ownOnly }) => ownOnly !== true).map(({ modality }) => modality))

/**
 * The routes that this caller may call now, or wake: those of its own nodes, private ones included, and where account and key allow
 * it those of others. Judged as a call would be, but for what a call itself brings (§9).
 */
export function callableRoutes(table: RoutingTable, access: Access, nowMs: number): readonly Route[] {
  return table.routes.filter(
    (route) =>
      (serves(route, nowMs) || isWoken(route, access, isOwn(route, access.customerId))) &&
      isVisible(route, access) &&
      isAllowed(route, access) &&
      access.policy.allows(route.policyNames) &&
      (isOwn(route, access.customerId) || route.serves.some((modality) => shared.has(modality))),
  )
}

/** Nobody else serves it now, and a request of its owner wakes the node (§39). */
const isWoken = ({ asleep }: Route, { policy }: Access, own: boolean) =>
  own && asleep?.wakeable === true && policy.wakes

/** Sorted by id. `caller`: whose nodes are free; null: no caller. */
export function modelsOf(routes: readonly Route[], caller: CustomerId | null): readonly Model[] {
  const byId = Map.groupBy(routes, ({ modelId }) => modelId)
  return [...byId.keys()].sort().map((id) => modelOf(id, byId.get(id) ?? [], caller))
}

function priceOf({ prices }: Route): Model['svc']['price'] {
  if (prices === null) return null
  return {
    prompt_token_price_wei: prices.promptTokenWei.toString(),
    completion_token_price_wei: prices.completionTokenWei.toString(),
  }
}

function modelOf(id: string, routes: readonly Route[], caller: CustomerId | null): Model {
  const others = routes.find(({ customerId }) => customerId !== caller)
  const contexts = routes.flatMap(({ contextLength }) => contextLength ?? [])
  const known = routes.flatMap(({ loaded }) => loaded ?? [])
  return {
    id,
    object: 'model',
    created: Math.min(...routes.map(({ knownAt }) => knownAt)),
    owned_by: brand,
    svc: {
      modality: routes[0]?.serves[0] ?? 'chat',
      serves: [...new Set(routes.flatMap((route) => route.serves))],
      context_length: contexts.length === 0 ? null : Math.max(...contexts),
      loaded: known.length === 0 ? null : known.includes(true),
      own: routes.some(({ customerId }) => customerId === caller),
      price: others === undefined ? null : priceOf(others),
    },
  }
}

/** Of Anthropic's list: a model has a name and a day. */
export function anthropicModel({ id, created }: Model): AnthropicModel {
  return { type: 'model', id, display_name: id, created_at: new Date(created * secondMs).toISOString() }
}
