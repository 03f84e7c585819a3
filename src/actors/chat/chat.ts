import { problemFor } from '../../db/outage.ts'
import { NoAnswer, within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { textBytes } from '../../host/budget.ts'
import { inSession, type Prompt } from '../../machines/placement/blocks.ts'
import { tokensAboveBound } from '../../machines/refusals/token-bound.ts'
import { isOwn } from '../../machines/rules/eligibility.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { textWeightPerUnitMax } from '../../protocol/chat/token-estimate.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import { Roster } from '../../roster.ts'
import type { Admission } from '../limits/limits.ts'
import type { Idle, PartedOperation } from '../operations/operation.ts'
import { Relay } from '../relay/relay.ts'
import { type ChatAnswer, type ChatCommand, outputAsked } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'
import { dispatch, refusal } from './dispatch.ts'
import { Exchange } from './exchange.ts'
import { Parts } from './parts.ts'
import { tryPassed } from './passed-answer.ts'
import { StreamOwner, tryStream } from './stream-answer.ts'
import type { SentAnswer } from './whole-answer.ts'
import { tryWhole } from './whole-call.ts'

export interface Chat {
  /** Resolves as soon as the status is certain. Refusals and failures before the first byte reject with a `Problem`. */
  complete(command: ChatCommand): Promise<ChatAnswer>
  /** Requests that have not ended. */
  readonly open: number
  /** Ends what is still running: streams with an error event, the rest with 503. */
  abortAll(): void
}

const noHeaders = {}
/** Of a longer `prompt_cache_key` nothing is made: it is a hint. UTF-16 units. */
const cacheKeyUnitsMax = 1_024
const noProfiles: ReadonlySet<string> = new Set()
const hashBlock = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)

function placementRequest(exchange: Exchange, prompt: Prompt | null): PlacementRequest {
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
    ownOnly: command.operation.ownOnly === true,
    unlisted: routes.every((route) => isOwn(route, command.access.customerId))
      ? null
      : (command.operation.unlisted?.(body) ?? null),
    exclude: noProfiles,
    freeOnly: false,
    prompt,
    matches: port.router.caches.match(routes[0]?.modelId ?? body.model, prompt),
    nowMs: Date.now(),
    queueWaitMs: port.config.SVC_QUEUE_WAIT_MS,
    cacheWaitMs: port.config.SVC_QUEUE_WAIT_MS,
    contextLeast: tight ? command.operation.tokensLeast(body) : null,
    contextWanted: tight ? exchange.promptEstimate().textTokens : null,
    contextAbove: null,
  }
}

/** Refusals that need no node: by the account, and by the policy's `max_tokens`. */
function checkPolicy(command: ChatCommand): void {
  const { access } = command
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const asked = outputAsked(command)
  const most = access.policy.maxTokensPerRequest
  const fault = most === null || asked === null ? null : tokensAboveBound(asked, most)
  if (fault !== null) throw fault
}

/** `max_tokens` to inject: a quota needs a true ceiling, a policy's bound holds for requests that name none. */
function outputCeiling(exchange: Exchange): number | null {
  const { operation, body, access } = exchange.command
  if (!operation.generates || outputAsked(exchange.command) !== null) return null
  const { maxTokensPerRequest, dailyTokenQuota } = access.policy
  if (dailyTokenQuota === null) return maxTokensPerRequest
  const longest = exchange.table.byModel.get(body.model)?.[0]?.maxOutputLength ?? Number.POSITIVE_INFINITY
  const ceiling = Math.min(longest, exchange.port.config.SVC_OUTPUT_TOKENS_DEFAULT)
  return maxTokensPerRequest === null ? ceiling : Math.min(ceiling, maxTokensPerRequest)
}

/** Takes what the account's limits ask for, null: without a wait; a request that no node may serve is refused before it takes anything. */
function admit(exchange: Exchange, request: PlacementRequest, ceiling: number | null): Promise<void> | null {
  const { command, port, table } = exchange
  const { access } = command
  const { dailyTokenQuota, rateLimitRpm, maxConcurrency } = access.policy
  if (dailyTokenQuota !== null || rateLimitRpm !== null || maxConcurrency !== null) {
    const placement = place(table, request)
    if (placement.kind === 'refused') {
      port.decided(command, { table, request, placement }, false)
      throw refusal(command, { table, request }, placement.code)
    }
  }
  const output = ceiling ?? outputAsked(command) ?? 0
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

/**
 * What this route is sent. A billed request has `max_tokens`, so that its quote is a true bound.
 */
function bodyFor(exchange: Exchange, route: Route, ceiling: number | null): UpstreamBody {
  const { operation, text, body } = exchange.command
  const priced = operation.generates && outputAsked(exchange.command) === null && exchange.isBilled(route)
  return operation.upstream(text, body, priced ? exchange.billedOutput(route) : ceiling, route)
}

function dispatchWhole(exchange: Exchange, request: PlacementRequest, ceiling: number | null) {
  return dispatch(exchange, request, (route) => tryWhole(exchange, route, bodyFor(exchange, route, ceiling)))
}

/** A request without a prompt loads or unloads its model. It is refused as a prompt would be, except that an owner may unload any model. */
async function tended(exchange: Exchange, request: PlacementRequest, { wish, answer }: Idle): Promise<ChatAnswer> {
  const { command, table, port } = exchange
  const { ownModels, limits } = port
  const wanted = { table, request }
  const placement = wish === 'unload' && ownModels.has(wanted) ? null : place(table, request)
  if (placement?.kind === 'refused') throw refusal(command, wanted, placement.code)
  const admission = await limits.admit(command.access, 0)
  exchange.admission = admission
  await whileWanted(exchange, ownModels[wish](wanted))
  exchange.finish(200, null, null, null)
  return { kind: 'whole', body: answer, kept: null, headers: admission.headers ?? noHeaders }
}

/** A load goes on when its client has left or the gateway stops, but nothing here waits for it any more. */
async function whileWanted(exchange: Exchange, done: Promise<void>): Promise<void> {
  const ended = Promise.withResolvers<never>()
  const end = () => ended.reject(new Problem('server_shutdown'))
  exchange.ending.addEventListener('abort', end)
  try {
    await within(exchange.callsUntilMs - performance.now(), Promise.race([done, ended.promise]))
  } catch (error) {
    throw error instanceof NoAnswer ? new Problem('model_loading') : error
  } finally {
    exchange.ending.removeEventListener('abort', end)
  }
}

/** The relay gets the outcome. */
async function dispatchStream(
  exchange: Exchange,
  relay: Relay,
  request: PlacementRequest,
  ceiling: number | null,
): Promise<void> {
  try {
    await dispatch(exchange, request, (route, firstChunkMs) =>
      tryStream(exchange, relay, route, bodyFor(exchange, route, ceiling), firstChunkMs),
    )
    exchange.forgetPrompt()
    relay.dispatched()
  } catch (error) {
    relay.undispatched(error)
  }
}

/** One answer of many: their sum, under the request's own id. */
async function joined(exchange: Exchange, parts: Parts): Promise<SentAnswer> {
  const { command } = exchange
  const answers = await parts.run()
  const sum = (of: (usage: TokenUsage) => number) => answers.reduce((all, { usage }) => all + of(usage), 0)
  const usage = {
    prompt_tokens: sum((part) => part.prompt_tokens),
    completion_tokens: sum((part) => part.completion_tokens),
    total_tokens: sum((part) => part.total_tokens),
  }
  const { operation, requestId, startedMs, body } = command as ChatCommand & { readonly operation: PartedOperation }
  const told = answers.map(({ conclusion }) => conclusion.metadata)
  const metadata = {
    ...(told[0] as ChatMetadata),
    latency_ms: Math.round(performance.now() - startedMs),
    request_id: requestId,
    ...(told.some(({ usage_estimated: estimated }) => estimated === true) ? { usage_estimated: true } : {}),
    ...(told.some(({ external }) => external === true) ? { external: true } : {}),
    receipt_hashes: told.map(({ receipt_hash: hash }) => hash),
  }
  const whole = operation.parts.join(answers.map(({ completion }) => completion))
  const text = operation.writeWhole(exchange.identity(), whole, { usage, metadata }, body)
  exchange.attempts = answers.length
  const kept = exchange.handOver(textBytes(text.length))
  exchange.finish(200, null, usage, null)
  return { body: text, kept }
}

/** What placement compares. A hint of the client's stands before all that can be seen of the prompt (§28). */
function promptFor(exchange: Exchange): Prompt | null {
  const { operation, body, access, session } = exchange.command
  const prompt = operation.prompt(access.customerId, exchange.modelId() ?? body.model, body, hashBlock)
  if (prompt === null) return null
  const key = session ?? (body as { readonly prompt_cache_key?: unknown }).prompt_cache_key
  const usable = typeof key === 'string' && key !== '' && key.length <= cacheKeyUnitsMax
  return usable ? inSession(prompt, access.customerId, key, hashBlock) : prompt
}

async function run(exchange: Exchange): Promise<ChatAnswer> {
  const { command, table, port } = exchange
  const { operation, body } = command
  checkPolicy(command)
  const prompt = (table.byModel.get(body.model)?.length ?? 0) > 1 ? promptFor(exchange) : null
  const request = placementRequest(exchange, prompt)
  const idle = operation.idle?.(exchange.identity(), body) ?? null
  if (idle !== null) return tended(exchange, request, idle)
  const ceiling = outputCeiling(exchange)
  const admitted = admit(exchange, request, ceiling)
  if (admitted !== null) await admitted
  const headers = exchange.admission?.headers ?? noHeaders
  const writer =
    body.stream === true ? operation.writer?.(exchange.identity(), body, command.clientNonce !== null) : undefined
  if (writer === undefined) {
    port.ticker.add(exchange)
    const parts = operation.parts === undefined ? null : Parts.of(exchange, request)
    exchange.parts = parts
    if (operation.passes === true) {
      const tried = (route: Route) => tryPassed(exchange, route, bodyFor(exchange, route, ceiling))
      return { kind: 'bytes', headers, ...(await dispatch(exchange, request, tried)) }
    }
    const { body: text, kept } = await (parts === null
      ? dispatchWhole(exchange, request, ceiling)
      : joined(exchange, parts).finally(() => parts.dropKept()))
    return { kind: 'whole', body: text, kept, headers }
  }
  const relay = new Relay(port, new StreamOwner(exchange), command, writer)
  exchange.relay = relay
  const opened = relay.open()
  void dispatchStream(exchange, relay, request, ceiling)
  await opened
  return { kind: 'stream', stream: relay.stream, headers }
}

export function createChat(port: ChatPort): Chat {
  const open = new Roster<'openPlace', Exchange>('openPlace')
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
        else {
          const { status, code } = problemFor(error)
          exchange.finish(status, code, null, null)
        }
        throw error
      }
    },
    get open() {
      return open.size
    },
    abortAll: () => {
      for (const exchange of [...open]) exchange.abort('shutdown')
    },
  }
}
