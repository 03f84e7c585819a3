import type { CustomerId } from '../../ids.ts'
import { inSession, type Prompt } from '../../machines/placement/blocks.ts'
import { isOwn } from '../../machines/rules/eligibility.ts'
import type { PlacementRequest } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { textWeightPerUnitMax } from '../../protocol/chat/token-estimate.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { outputAsked } from './chat-command.ts'
import type { Exchange } from './exchange.ts'

/** Of a longer `prompt_cache_key` nothing is made: it is a hint. UTF-16 units. */
const cacheKeyUnitsMax = 1_024
const noProfiles: ReadonlySet<string> = new Set()
const hashBlock = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)

/** What placement compares. A hint of the client's stands before all that can be seen of the prompt (§28). */
function promptFor(exchange: Exchange, model: string): Prompt | null {
  const { operation, body, access, session } = exchange.command
  const prompt = operation.prompt(access.customerId, exchange.modelId(model) ?? model, body, hashBlock)
  if (prompt === null) return null
  const key = session ?? (body as { readonly prompt_cache_key?: unknown }).prompt_cache_key
  const usable = typeof key === 'string' && key !== '' && key.length <= cacheKeyUnitsMax
  return usable ? inSession(prompt, access.customerId, key, hashBlock) : prompt
}

const noRoutes: readonly Route[] = []

/** One of them may have too small a context for a prompt of so many tokens. */
function isTight(routes: readonly Route[], tokensMost: number): boolean {
  for (const { contextLength } of routes) if (contextLength !== null && contextLength < tokensMost) return true
  return false
}

function areOwn(routes: readonly Route[], customerId: CustomerId): boolean {
  for (const route of routes) if (!isOwn(route, customerId)) return false
  return true
}

/** What a request wants of its route, for one of its models. Its prompt is read only where there is a choice. */
export function placementRequest(exchange: Exchange, model = exchange.command.body.model): PlacementRequest {
  const { command, port, table } = exchange
  const { body } = command
  const routes = table.byModel.get(model) ?? noRoutes
  const tight = isTight(routes, command.text.length * textWeightPerUnitMax)
  const prompt = routes.length > 1 ? promptFor(exchange, model) : null
  return {
    modelId: model,
    modality: command.operation.modality,
    byAgents: command.operation.byAgents,
    access: command.access,
    pin: command.pin,
    profileId: body.svc?.model_profile_id ?? null,
    ownOnly: command.operation.ownOnly === true,
    unlisted: areOwn(routes, command.access.customerId) ? null : (command.operation.unlisted?.(body) ?? null),
    exclude: noProfiles,
    side: null,
    freeOnly: false,
    prompt,
    matches: port.router.caches.matchAt(routes, prompt),
    nowMs: Date.now(),
    queueWaitMs: port.config.SVC_QUEUE_WAIT_MS,
    cacheWaitMs: port.config.SVC_QUEUE_WAIT_MS,
    contextLeast: tight ? command.operation.tokensLeast(body) : null,
    contextWanted: tight ? exchange.promptEstimate().textTokens : null,
    contextAbove: null,
  }
}

/** `max_tokens` to inject: a quota needs a true ceiling, a policy's bound holds for requests that name none. */
export function outputCeiling(exchange: Exchange, model = exchange.command.body.model): number | null {
  const { operation, access } = exchange.command
  if (!operation.generates || outputAsked(exchange.command) !== null) return null
  const { maxTokensPerRequest, dailyTokenQuota } = access.policy
  if (dailyTokenQuota === null) return maxTokensPerRequest
  const longest = exchange.table.byModel.get(model)?.[0]?.maxOutputLength ?? Number.POSITIVE_INFINITY
  const ceiling = Math.min(longest, exchange.port.config.SVC_OUTPUT_TOKENS_DEFAULT)
  return maxTokensPerRequest === null ? ceiling : Math.min(ceiling, maxTokensPerRequest)
}

/** What this route is sent. A billed request has `max_tokens`, so that its quote is a true bound. */
export function bodyFor(exchange: Exchange, route: Route, ceiling: number | null): UpstreamBody {
  const { operation, text, body } = exchange.command
  const priced = operation.generates && outputAsked(exchange.command) === null && exchange.isBilled(route)
  return operation.upstream(text, body, priced ? exchange.billedOutput(route) : ceiling, route)
}
