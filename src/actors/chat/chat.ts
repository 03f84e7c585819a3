import { Problem } from '../../errors.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { textWeightPerUnitMax } from '../../protocol/chat/token-estimate.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { Admission } from '../limits/limits.ts'
import type { ChatAnswer, ChatCommand } from './chat-command.ts'
import { dispatch, refusal } from './dispatch.ts'
import { type ChatPort, Exchange } from './exchange.ts'
import { Relay } from './relay.ts'
import { StreamOwner, tryStream } from './stream-answer.ts'
import { tryWhole } from './whole-answer.ts'

export interface Chat {
  /** Resolves as soon as the status is certain. Refusals and failures before the first byte reject with a `Problem`. */
  complete(command: ChatCommand): Promise<ChatAnswer>
  /** Requests that have not ended. */
  readonly open: number
  /** Ends what is still running: streams with an error event, the rest with 503. */
  abortAll(): void
}

const noHeaders = {}
const noProfiles: ReadonlySet<string> = new Set()
const hashPrefix = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)

function placementRequest(exchange: Exchange, keys: readonly bigint[] | null): PlacementRequest {
  const { command, port, table } = exchange
  const { body } = command
  const routes = table.byModel.get(body.model) ?? []
  const ceiling = command.text.length * textWeightPerUnitMax
  const tight = routes.some((route) => route.contextLength !== null && route.contextLength < ceiling)
  return {
    modelId: body.model,
    modality: command.operation.modality,
    byAgents: command.operation.byAgents,
    access: command.access,
    pin: command.pin,
    profileId: body.svc?.model_profile_id ?? null,
    ownOnly: false,
    exclude: noProfiles,
    freeOnly: false,
    affinityNodeId: keys === null ? null : port.prefixes.lookup(keys),
    nowMs: Date.now(),
    contextLeast: tight ? command.operation.tokensLeast(body) : null,
    contextWanted: tight ? exchange.promptEstimate().textTokens : null,
    contextAbove: null,
  }
}

/** Refusals that need no node: the account, and what the policy says of `max_tokens`. */
function checkPolicy(command: ChatCommand): void {
  const { access, body } = command
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const asked = body.max_tokens ?? body.max_completion_tokens ?? null
  const most = access.policy.maxTokensPerRequest
  if (most !== null && asked !== null && asked > most) throw new Problem('max_tokens_exceeded', { param: 'max_tokens' })
}

/** `max_tokens` to inject: a quota needs a true ceiling, a policy's bound holds for requests that name none. */
function outputCeiling(exchange: Exchange): number | null {
  const { operation, body, access } = exchange.command
  if (!operation.generates || body.max_tokens != null || body.max_completion_tokens != null) return null
  const { maxTokensPerRequest, dailyTokenQuota } = access.policy
  if (dailyTokenQuota === null) return maxTokensPerRequest
  const longest = exchange.table.byModel.get(body.model)?.[0]?.maxOutputLength ?? Number.POSITIVE_INFINITY
  const ceiling = Math.min(longest, exchange.port.config.SVC_OUTPUT_TOKENS_DEFAULT)
  return maxTokensPerRequest === null ? ceiling : Math.min(ceiling, maxTokensPerRequest)
}

/** Takes what the account's limits ask for, null: without a wait; a request that no node may serve is refused before it takes anything. */
function admit(exchange: Exchange, request: PlacementRequest, ceiling: number | null): Promise<void> | null {
  const { command, port, table } = exchange
  const { access, body } = command
  const { dailyTokenQuota, rateLimitRpm, maxConcurrency } = access.policy
  if (dailyTokenQuota !== null || rateLimitRpm !== null || maxConcurrency !== null) {
    const placement = place(table, request, port.random)
    if (placement.kind === 'refused') {
      port.decided(command, { table, request, placement }, false)
      throw refusal(command, placement.code)
    }
  }
  const output = ceiling ?? body.max_tokens ?? body.max_completion_tokens ?? 0
  const tokens = dailyTokenQuota === null ? 0 : exchange.prompt() + output
  exchange.reserved = tokens
  const admission = port.limits.admit(access, tokens)
  if (admission instanceof Promise) return whenAdmitted(exchange, admission)
  exchange.admission = admission
  return null
}

async function whenAdmitted(exchange: Exchange, admission: Promise<Admission | null>): Promise<void> {
  exchange.admission = await admission
}

type PrefixKeys = readonly bigint[] | null

/**
 * What this route is sent. A billed request has `max_tokens`, so that its quote is a true bound.
 */
function bodyFor(exchange: Exchange, route: Route, ceiling: number | null): UpstreamBody {
  const { operation, text, body } = exchange.command
  const given = body.max_tokens ?? body.max_completion_tokens
  const priced = operation.generates && given == null && exchange.isBilled(route)
  return operation.upstream(text, body, priced ? exchange.billedOutput(route) : ceiling, route.runtimeKind)
}

function dispatchWhole(exchange: Exchange, request: PlacementRequest, keys: PrefixKeys, ceiling: number | null) {
  return dispatch(exchange, request, (route) => {
    if (keys !== null) exchange.port.prefixes.record(keys, route.nodeId)
    return tryWhole(exchange, route, bodyFor(exchange, route, ceiling))
  })
}

/** The relay hears how it went. */
async function dispatchStream(
  exchange: Exchange,
  relay: Relay,
  request: PlacementRequest,
  keys: PrefixKeys,
  ceiling: number | null,
): Promise<void> {
  try {
    await dispatch(exchange, request, (route, firstChunkMs) => {
      if (keys !== null) exchange.port.prefixes.record(keys, route.nodeId)
      return tryStream(exchange, relay, route, bodyFor(exchange, route, ceiling), firstChunkMs)
    })
    exchange.forgetPrompt()
    relay.dispatched()
  } catch (error) {
    relay.undispatched(error)
  }
}

async function run(exchange: Exchange): Promise<ChatAnswer> {
  const { command, table, port } = exchange
  const { operation, body, access } = command
  checkPolicy(command)
  const pooled = (table.byModel.get(body.model)?.length ?? 0) > 1
  const keys = pooled ? operation.prefixKeys(access.customerId, body, hashPrefix) : null
  const request = placementRequest(exchange, keys)
  const ceiling = outputCeiling(exchange)
  const admitted = admit(exchange, request, ceiling)
  if (admitted !== null) await admitted
  const headers = exchange.admission?.headers ?? noHeaders
  const writer = body.stream === true ? operation.writer?.(exchange.identity(), body) : undefined
  if (writer === undefined) {
    port.ticker.add(exchange)
    const answer = await dispatchWhole(exchange, request, keys, ceiling)
    return { kind: 'whole', body: answer.body, headers }
  }
  const relay = new Relay(port, new StreamOwner(exchange), command, writer)
  exchange.relay = relay
  const opened = relay.open()
  void dispatchStream(exchange, relay, request, keys, ceiling)
  await opened
  return { kind: 'stream', stream: relay.stream, headers }
}

export function createChat(port: ChatPort): Chat {
  const open = new Set<Exchange>()
  return {
    complete: async (command) => {
      const exchange = new Exchange(port, command, port.router.table(), open)
      open.add(exchange)
      command.signal.addEventListener('abort', exchange)
      try {
        return await run(exchange)
      } catch (error) {
        exchange.relay?.abandon()
        // Whatever broke, the slot is free again; where it was free already, this does nothing.
        exchange.attempt?.release({ kind: 'neutral' })
        if (command.signal.aborted) exchange.finish(499, null, null, null)
        else if (error instanceof Problem) exchange.finish(error.status, error.code, null, null)
        else exchange.finish(500, 'internal_error', null, null)
        throw error
      }
    },
    get open() {
      return open.size
    },
    abortAll: () => {
      for (const exchange of open) exchange.abort('shutdown')
    },
  }
}
