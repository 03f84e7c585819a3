import { Problem } from '../../errors.ts'
import { type Prompt, promptOf } from '../../machines/placement/blocks.ts'
import { noMatches } from '../../machines/placement/cache-view.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { ChunkRewriter } from '../../protocol/chat/chunk-rewriter.ts'
import { promptTokensLeast, textWeightPerUnitMax } from '../../protocol/chat/token-estimate.ts'
import { streamMembers, type UpstreamBody, upstreamBody } from '../../protocol/chat/upstream-request.ts'
import { askedAsStream } from '../../runtimes/registry.ts'
import type { ChatAnswer, ChatCommand } from './chat-command.ts'
import { dispatch, refusal } from './dispatch.ts'
import { type ChatPort, Exchange } from './exchange.ts'
import { Relay } from './relay.ts'
import { committed, endStream, tryStream } from './stream-answer.ts'
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
const hashBlock = (text: string, seed: bigint) => Bun.hash.wyhash(text, seed)

function placementRequest(exchange: Exchange, prompt: Prompt | null): PlacementRequest {
  const { command, port, table } = exchange
  const { body } = command
  const routes = table.byModel.get(body.model) ?? []
  const ceiling = command.text.length * textWeightPerUnitMax
  const tight = routes.some((route) => route.contextLength !== null && route.contextLength < ceiling)
  return {
    modelId: body.model,
    access: command.access,
    pin: command.pin,
    profileId: body.svc?.model_profile_id ?? null,
    ownOnly: false,
    exclude: new Set(),
    freeOnly: false,
    prompt,
    matches: prompt === null ? noMatches : port.router.caches.of(routes[0]?.modelId ?? body.model).match(prompt),
    nowMs: Date.now(),
    queueWaitMs: port.config.SVC_QUEUE_WAIT_MS,
    contextLeast: tight ? promptTokensLeast(body) : null,
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
  const { body, access } = exchange.command
  if (body.max_tokens != null || body.max_completion_tokens != null) return null
  const { maxTokensPerRequest, dailyTokenQuota } = access.policy
  if (dailyTokenQuota === null) return maxTokensPerRequest
  const longest = exchange.table.byModel.get(body.model)?.[0]?.maxOutputLength ?? Number.POSITIVE_INFINITY
  const ceiling = Math.min(longest, exchange.port.config.SVC_OUTPUT_TOKENS_DEFAULT)
  return maxTokensPerRequest === null ? ceiling : Math.min(ceiling, maxTokensPerRequest)
}

/** Takes what the account's limits ask for; a request that no machine may serve is refused before it takes anything. */
async function admit(exchange: Exchange, request: PlacementRequest, ceiling: number | null): Promise<void> {
  const { command, port, table } = exchange
  const { access, body } = command
  const { dailyTokenQuota, rateLimitRpm, maxConcurrency } = access.policy
  if (dailyTokenQuota !== null || rateLimitRpm !== null || maxConcurrency !== null) {
    const placement = place(table, request)
    if (placement.kind === 'refused') {
      port.decided(command, { table, request, placement }, false)
      throw refusal(command, placement.code)
    }
  }
  const output = ceiling ?? body.max_tokens ?? body.max_completion_tokens ?? 0
  const tokens = dailyTokenQuota === null ? 0 : exchange.prompt() + output
  exchange.reserved = tokens
  const admission = port.limits.admit(access, tokens)
  exchange.admission = admission instanceof Promise ? await admission : admission
}

// Functions of their own: a closure keeps all that its function names, and a stream's must not keep the prompt.
function relayFor(exchange: Exchange): Relay {
  const { port, command, id, created } = exchange
  return new Relay(
    { ...port, settle: (end) => endStream(exchange, end), skipped: () => port.failed('malformed_line') },
    command,
    new ChunkRewriter({ id, created, model: command.body.model }),
  )
}

/**
 * What this route is sent. A billed request has `max_tokens`, so that its quote is a true bound; a whole answer of a
 * runtime that hears late of a client that left is asked for as a stream (§27).
 */
function bodyFor(exchange: Exchange, route: Route, ceiling: number | null): UpstreamBody {
  const { text, body } = exchange.command
  const given = body.max_tokens ?? body.max_completion_tokens
  const bound = given == null && exchange.isBilled(route) ? exchange.billedOutput(route) : ceiling
  return upstreamBody(text, body, bound, askedAsStream(route.runtimeKind, body) ? streamMembers : null)
}

function dispatchWhole(exchange: Exchange, request: PlacementRequest, ceiling: number | null) {
  return dispatch(exchange.port, exchange.command, request, (route, { work }) => {
    exchange.work = work
    return tryWhole(exchange, route, bodyFor(exchange, route, ceiling))
  })
}

async function dispatchStream(
  exchange: Exchange,
  relay: Relay,
  request: PlacementRequest,
  ceiling: number | null,
): Promise<void> {
  await dispatch(exchange.port, exchange.command, request, (route, budget) => {
    exchange.work = budget.work
    return tryStream(exchange, relay, route, bodyFor(exchange, route, ceiling), budget)
  })
  exchange.forgetPrompt()
}

async function run(exchange: Exchange): Promise<ChatAnswer> {
  const { command, table, port } = exchange
  const { body, access } = command
  checkPolicy(command)
  const pooled = (table.byModel.get(body.model)?.length ?? 0) > 1
  const prompt = pooled ? promptOf(access.customerId, exchange.modelId() ?? body.model, body, hashBlock) : null
  const request = placementRequest(exchange, prompt)
  const ceiling = outputCeiling(exchange)
  await admit(exchange, request, ceiling)
  const headers = exchange.admission?.headers ?? noHeaders
  if (body.stream !== true) {
    port.ticker.add(exchange)
    const answer = await dispatchWhole(exchange, request, ceiling)
    return { kind: 'whole', body: answer.body, headers }
  }
  const relay = relayFor(exchange)
  exchange.relay = relay
  const running = dispatchStream(exchange, relay, request, ceiling)
  await committed(exchange, relay, running)
  return { kind: 'stream', stream: relay.stream, headers }
}

export function createChat(port: ChatPort): Chat {
  const open = new Set<Exchange>()
  return {
    complete: async (command) => {
      const exchange = new Exchange(port, command, port.router.table(), (done) => open.delete(done))
      open.add(exchange)
      command.signal.addEventListener('abort', () => exchange.abort('client_gone'))
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
