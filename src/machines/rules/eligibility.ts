import type { ProblemCode } from '../../errors.ts'
import type { CustomerId } from '../../ids.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { Prompt } from '../placement/blocks.ts'
import type { Matches } from '../placement/cache-view.ts'
import { type EffectivePolicy, privacyRank } from './model-policy.ts'
import type { Route, RoutingTable } from './routing.ts'

/** A request that has tried `own` routes never tries those of `others`, and the reverse (§5, failover). null: it has tried none. */
export type Side = 'own' | 'others' | null

export interface PlacementRequest {
  /** As the client named it: an id or an alias. */
  readonly modelId: string
  readonly modality: Modality
  /** A server that may not do this kind of work is asked, as nothing but a guess speaks against it (§35). */
  readonly onTrial?: true
  /** Agents pass it on; else only nodes that are reached by their URL can serve it. */
  readonly byAgents: boolean
  readonly access: { readonly customerId: CustomerId; readonly policy: EffectivePolicy }
  /** The node that the client pinned. Only an own node can be pinned. */
  readonly pin: string | null
  readonly profileId: string | null
  /** Used by mixtures, whose sub-calls never leave the caller's own nodes. */
  readonly ownOnly: boolean
  /**
   * The name of the first field that no table knows; null: every field is known. Another account's node may bill for such a
   * field, so only own nodes get it (§35).
   */
  readonly unlisted: string | null
  /** Profiles this request has already tried. */
  readonly exclude: ReadonlySet<string>
  /** Whose they were when they were tried: they may be gone, or another's by now. */
  readonly side: Side
  /** Only routes that are free for the caller. */
  readonly freeOnly: boolean
  /** null if not computed, because only one route has the model. */
  readonly prompt: Prompt | null
  /** The part of it that each route's cache holds, by estimate. */
  readonly matches: Matches
  readonly nowMs: number
  /** Longest wait for a slot before a higher rank serves the request, ms. null: the request has already waited. */
  readonly queueWaitMs: number | null
  /** Longest wait for a slot of a route that has the prompt in its cache, ms. null: the request takes an open route. */
  readonly cacheWaitMs: number | null
  /**
   * The smallest possible number of prompt tokens. A smaller context cannot hold the prompt. null if every context
   * can.
   */
  readonly contextLeast: number | null
  /** The estimated number of tokens, which is usually too high. Smaller contexts are tried last. */
  readonly contextWanted: number | null
  /** A node has reported that its context of this size is too small, so only larger ones are tried. */
  readonly contextAbove: number | null
}

export type RefusalCode = Extract<
  ProblemCode,
  | 'model_not_found'
  | 'model_not_allowed'
  | 'privacy_class_not_allowed'
  | 'node_pin_forbidden'
  | 'context_length_exceeded'
  | 'modality_not_supported'
  | 'no_route_available'
  | 'node_asleep'
  | 'invalid_request'
>

/**
 * How far a route got, worst first: the furthest route of a model decides the refusal's code. The order is that of the
 * checks in `judge`.
 */
export const verdicts = [
  { name: 'not_visible', code: 'model_not_found' },
  { name: 'other_profile', code: 'model_not_found' },
  { name: 'route_tier', code: 'model_not_allowed' },
  { name: 'privacy_class', code: 'privacy_class_not_allowed' },
  { name: 'external', code: 'privacy_class_not_allowed' },
  { name: 'other_modality', code: 'modality_not_supported' },
  { name: 'not_own', code: 'no_route_available' },
  { name: 'not_pinned', code: 'no_route_available' },
  { name: 'unlisted_field', code: 'invalid_request' },
  { name: 'billed', code: 'no_route_available' },
  { name: 'context_length', code: 'context_length_exceeded' },
  { name: 'not_ready', code: 'no_route_available' },
  { name: 'asleep', code: 'node_asleep' },
  { name: 'tried', code: 'no_route_available' },
  { name: 'full', code: 'no_route_available' },
  { name: 'open', code: 'no_route_available' },
] as const satisfies readonly { name: string; code: RefusalCode }[]

export type Verdict = (typeof verdicts)[number]['name']
export const verdictRank = Object.fromEntries(verdicts.map((verdict, index) => [verdict.name, index])) as Readonly<
  Record<Verdict, number>
>

export const isOwn = (route: Route, customerId: CustomerId) => route.customerId === customerId
/** True if the route is free for this caller, which own nodes always are. */
export const isFree = (route: Route, customerId: CustomerId) => isOwn(route, customerId) || !route.priced
export const hasSlot = (route: Route) => route.slotsTotal === null || route.load.inFlight < route.slotsTotal

/** True if the route is own or public and inside the node scope. Other routes do not exist for the caller. */
export function isVisible(route: Route, access: PlacementRequest['access']): boolean {
  const scope = access.policy.nodeScope
  return (
    (isOwn(route, access.customerId) || route.visibility === 'public') && (scope === null || scope.has(route.nodeId))
  )
}

/** True if tier and privacy class allow this caller's prompts. The caller has checked `isVisible`. */
export function isAllowed(route: Route, access: PlacementRequest['access']): boolean {
  return inTier(route, access.policy) && isPrivateEnough(route, access) && mayLeave(route, access)
}

function inTier(route: Route, policy: EffectivePolicy): boolean {
  return policy.routeTiers === null || policy.routeTiers.has(route.nodeClass)
}

/** `private` means the caller's own node (§8), whatever class other owners give to their nodes. */
function isPrivateEnough(route: Route, access: PlacementRequest['access']): boolean {
  if (isOwn(route, access.customerId)) return true
  const { minPrivacyRank } = access.policy
  return minPrivacyRank < privacyRank.private && privacyRank[route.privacyClass] >= minPrivacyRank
}

/** A prompt goes to a hosted provider only if account and key allow it, no matter which account added the provider. */
const mayLeave = ({ external }: Route, { policy }: PlacementRequest['access']) => !external || policy.external

function holds({ contextLength }: Route, { contextLeast, contextAbove }: PlacementRequest): boolean {
  if (contextAbove !== null && (contextLength === null || contextLength <= contextAbove)) return false
  return contextLeast === null || contextLength === null || contextLength >= contextLeast
}

export const sideOf = (route: Route, customerId: CustomerId) => (isOwn(route, customerId) ? 'own' : 'others')

export function judge(route: Route, request: PlacementRequest): Verdict {
  const { access, side } = request
  const own = isOwn(route, access.customerId)
  if (!isVisible(route, access)) return 'not_visible'
  if (request.profileId !== null && (!own || route.profileId !== request.profileId)) return 'other_profile'
  if (!inTier(route, access.policy)) return 'route_tier'
  if (!isPrivateEnough(route, access)) return 'privacy_class'
  if (!mayLeave(route, access)) return 'external'
  if (!route.serves.includes(request.modality) && !(request.onTrial && own && route.workGuessed))
    return 'other_modality'
  if (route.agent !== null && !request.byAgents) return 'other_modality'
  if (own ? side === 'others' : side === 'own' || request.ownOnly || request.pin !== null) return 'not_own'
  if (request.pin !== null && route.nodeId !== request.pin) return 'not_pinned'
  if (request.unlisted !== null && !own) return 'unlisted_field'
  if (request.freeOnly && !isFree(route, access.customerId)) return 'billed'
  if (!holds(route, request)) return 'context_length'
  // Only its owner wakes a computer. One that fell asleep under a try is woken for the next one.
  if (!route.ready) return own && route.asleep !== null ? 'asleep' : 'not_ready'
  if (request.exclude.has(route.profileId)) return 'tried'
  return hasSlot(route) ? 'open' : 'full'
}

/** The refusal that needs no look at any route, or null. */
export function refusedOutright(table: RoutingTable, request: PlacementRequest): RefusalCode | null {
  const { pin, access } = request
  if (pin === null) return null
  const scope = access.policy.nodeScope
  const mine = table.owners.get(pin) === access.customerId && (scope === null || scope.has(pin))
  return mine ? null : 'node_pin_forbidden'
}

export interface NamedModel {
  readonly table: Pick<RoutingTable, 'byModel' | 'latest'>
  readonly access: PlacementRequest['access']
  readonly name: string
  /** Only own nodes count. */
  readonly ownOnly?: boolean
  /** A further name that its clients may mean; null: none. */
  readonly otherName?: ((name: string) => string | null) | null
}

/**
 * The name in the table of the model that the caller means: the name it sent. If the caller may call no model of
 * exactly this name and an Ollama has it with the tag `latest`, the name is that one (§28). Other accounts' names have
 * no influence.
 */
export function meantModel({ table, access, name, ownOnly = false, otherName }: NamedModel): string {
  const { byModel, latest } = table
  const tagged = latest.get(name)
  const reaches = (route: Route) =>
    isVisible(route, access) && isAllowed(route, access) && (!ownOnly || isOwn(route, access.customerId))
  if (byModel.get(name)?.some(reaches) === true) return name
  const meant = tagged?.find(reaches)?.modelId
  if (meant !== undefined) return meant
  const other = otherName?.(name) ?? null
  return other !== null && byModel.get(other)?.some(reaches) === true ? other : name
}
