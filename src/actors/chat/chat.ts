import { problemFor } from '../../db/outage.ts'
import { NoAnswer, within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { textBytes } from '../../host/budget.ts'
import { tokensAboveBound } from '../../machines/refusals/token-bound.ts'
import { type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { usageSum } from '../../protocol/chat/token-usage.ts'
import { Roster } from '../../roster.ts'
import { dispatch, refusal } from '../dispatch/dispatch.ts'
import type { Admission } from '../limits/limits.ts'
import type { CallPlan, Idle, PartedOperation, StreamWriter } from '../operations/operation.ts'
import { Relay } from '../relay/relay.ts'
import { type ChatAnswer, type ChatCommand, outputAsked } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'
import { Exchange } from './exchange.ts'
import { metadataOf } from './exchange-receipt.ts'
import { joinedAnswer } from './joined-answer.ts'
import { ManyCalls } from './many-calls.ts'
import { ceilingOfAll, inTurn, lengthsOf, refuseUnplaceable, type Turn, turnToOne } from './models-in-turn.ts'
import { Parts } from './parts.ts'
import { tryPassed } from './passed-answer.ts'
import { StreamOwner, tryStream } from './stream-answer.ts'
import { StreamOfCalls } from './stream-calls.ts'
import { bodyFor, outputCeiling, placementRequest } from './wanted.ts'
import { limitHeaders, type SentAnswer, sentAnswer } from './whole-answer.ts'
import { tryWhole } from './whole-call.ts'

export interface Chat {
  /** Resolves as soon as the status is certain. Refusals and failures before the first byte reject with a `Problem`. */
  complete(command: ChatCommand): Promise<ChatAnswer>
  /** The same for another way to an answer, which ends the exchange once it has begun one. */
  during<T>(command: ChatCommand, work: (exchange: Exchange) => Promise<T>): Promise<T>
  /** Requests that have not ended. */
  readonly open: number
  /** Ends what is still running: streams with an error event, the rest with 503. */
  abortAll(): void
}

/** Refusals that need no node: by the account, and by the policy's `max_tokens`. */
export function checkPolicy(command: ChatCommand): void {
  const { access } = command
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const asked = outputAsked(command)
  const most = access.policy.maxTokensPerRequest
  const fault = most === null || asked === null ? null : tokensAboveBound(asked, most)
  if (fault !== null) throw fault
}

/** No wait would help. */
function tooManyCalls(calls: number, perMinute: number): Problem {
  const detail = `prompt: the request counts as ${calls} calls, and the account may make ${perMinute} a minute`
  return new Problem('invalid_request', { param: 'prompt', detail })
}

/** Takes what the account's limits ask for, null: without a wait; a request that no node may serve is refused before it takes anything. */
export function admit(
  exchange: Exchange,
  request: PlacementRequest,
  ceiling: number | null,
  calls: number,
): Promise<void> | null {
  const { command, port, table } = exchange
  const { access } = command
  const { dailyTokenQuota, rateLimitRpm, maxConcurrency } = access.policy
  if (dailyTokenQuota !== null || rateLimitRpm !== null || maxConcurrency !== null) {
    const placement = place(table, request)
    if (placement.kind === 'refused' && command.models != null) refuseUnplaceable(exchange, command.models)
    else if (placement.kind === 'refused') {
      port.decided(command, { table, request, placement }, false)
      throw refusal(command, { table, request }, placement.code)
    }
  }
  if (rateLimitRpm !== null && calls > rateLimitRpm) throw tooManyCalls(calls, rateLimitRpm)
  const output = calls * (ceiling ?? outputAsked(command) ?? 0)
  const tokens = dailyTokenQuota === null ? 0 : exchange.prompt() + output
  exchange.reserved = tokens
  const admission = port.limits.admit(access, tokens, calls)
  if (admission instanceof Promise) return whenAdmitted(exchange, admission)
  exchange.admission = admission
  return null
}

async function whenAdmitted(exchange: Exchange, admission: Promise<Admission | null>): Promise<void> {
  exchange.admission = await admission
}

function dispatchWhole(exchange: Exchange, { request, ceiling, clocks }: Turn) {
  return dispatch(exchange, request, (route) => tryWhole(exchange, route, bodyFor(exchange, route, ceiling)), clocks)
}

function dispatchPassed(exchange: Exchange, { request, ceiling, clocks }: Turn) {
  return dispatch(exchange, request, (route) => tryPassed(exchange, route, bodyFor(exchange, route, ceiling)), clocks)
}

/** A whole answer of one model, by one call or by many nodes side by side. */
function answerWhole(exchange: Exchange, turn: Turn): Promise<SentAnswer> {
  const parts = exchange.command.operation.parts === undefined ? null : Parts.of(exchange, turn.request)
  exchange.parts = parts
  return parts === null ? dispatchWhole(exchange, turn) : answerOfParts(exchange, parts)
}

const answerOfParts = (exchange: Exchange, parts: Parts) => joined(exchange, parts).finally(() => parts.dropKept())

/** The same of the first of several models that gives one. */
const wholeInTurn = (exchange: Exchange, first: Turn) => inTurn(exchange, first, (turn) => answerWhole(exchange, turn))

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
  return sentAnswer(exchange, answer, null)
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

/** Writes the stream of the model whose turn it is; undefined: the answer comes whole. */
function writerOf(exchange: Exchange): StreamWriter | undefined {
  const { operation, body, clientNonce } = exchange.command
  return body.stream === true ? operation.writer?.(exchange.identity(), body, clientNonce !== null) : undefined
}

/** The relay gets the outcome. */
async function dispatchStream(exchange: Exchange, relay: Relay, first: Turn): Promise<void> {
  try {
    await inTurn(exchange, first, (turn) => {
      const { request, ceiling, clocks } = turn
      const writer = turn.later === true ? writerOf(exchange) : undefined
      if (writer !== undefined) relay.writeBy(writer)
      const tried = (route: Route, firstChunkMs: number) =>
        tryStream(exchange, relay, route, bodyFor(exchange, route, ceiling), firstChunkMs)
      return dispatch(exchange, request, tried, clocks)
    })
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
  const usage = usageSum(answers.map((part) => part.usage))
  const metadata = metadataOf(
    exchange,
    answers.map(({ conclusion }) => conclusion.metadata),
  )
  const { operation, body } = command as ChatCommand & { readonly operation: PartedOperation }
  const whole = operation.parts.join(answers.map(({ completion }) => completion))
  const text = operation.writeWhole(exchange.identity(), whole, { usage, metadata }, body)
  exchange.attempts = answers.length
  const kept = exchange.handOver(textBytes(text.length))
  exchange.finish(200, null, usage, null)
  return sentAnswer(exchange, text, kept)
}

/** The answer to a request that is several calls. */
async function answerOf(calls: ManyCalls): Promise<ChatAnswer> {
  const { exchange } = calls
  exchange.parts = calls
  exchange.port.ticker.add(exchange)
  if (exchange.command.body.stream !== true) return joinedAnswer(calls)
  const all = new StreamOfCalls(calls)
  await all.open()
  return { kind: 'stream', stream: all.stream, headers: limitHeaders(exchange) }
}

function answerOfPlan(exchange: Exchange, { request, ceiling }: Turn, plan: CallPlan): Promise<ChatAnswer> {
  const { models } = exchange.command
  if (models == null) return answerOf(new ManyCalls(exchange, plan, request, ceiling))
  const chosen = turnToOne(exchange, models)
  return answerOf(new ManyCalls(exchange, plan, chosen, outputCeiling(exchange)))
}

async function passed(exchange: Exchange, first: Turn): Promise<ChatAnswer> {
  const answer = await inTurn(exchange, first, (turn) => dispatchPassed(exchange, turn))
  return { kind: 'bytes', headers: limitHeaders(exchange), ...answer }
}

async function streamed(exchange: Exchange, first: Turn, writer: StreamWriter): Promise<ChatAnswer> {
  const { port, command } = exchange
  const relay = new Relay(port, new StreamOwner(exchange), command, writer)
  exchange.relay = relay
  const opened = relay.open()
  void dispatchStream(exchange, relay, first)
  await opened
  return { kind: 'stream', stream: relay.stream, headers: limitHeaders(exchange) }
}

/** A whole answer, the usual one, is what its dispatch resolves with: no suspended function stands in between. */
function answered(exchange: Exchange, first: Turn, plan: CallPlan | null): Promise<ChatAnswer> {
  if (plan !== null) return answerOfPlan(exchange, first, plan)
  const writer = writerOf(exchange)
  if (writer !== undefined) return streamed(exchange, first, writer)
  const { command, port } = exchange
  port.ticker.add(exchange)
  if (command.operation.passes === true) return passed(exchange, first)
  return command.models == null ? answerWhole(exchange, first) : wholeInTurn(exchange, first)
}

async function whenLetIn(
  admitted: Promise<void>,
  exchange: Exchange,
  first: Turn,
  plan: CallPlan | null,
): Promise<ChatAnswer> {
  await admitted
  return answered(exchange, first, plan)
}

/** Throws as it rejects. */
function run(exchange: Exchange): Promise<ChatAnswer> {
  const { command } = exchange
  const { operation, body } = command
  checkPolicy(command)
  const request = placementRequest(exchange)
  const idle = operation.idle?.(exchange.identity(), body) ?? null
  if (idle !== null) return tended(exchange, request, idle)
  if (command.models != null) lengthsOf(exchange, command.models)
  const ceiling = outputCeiling(exchange)
  const plan = operation.calls?.(command.text, body) ?? null
  const admitted = admit(exchange, request, ceilingOfAll(exchange, ceiling), plan?.count ?? 1)
  const first = { request, ceiling }
  return admitted === null ? answered(exchange, first, plan) : whenLetIn(admitted, exchange, first, plan)
}

export function createChat(port: ChatPort): Chat {
  const open = new Roster<'openPlace', Exchange>('openPlace')
  const during = async <T>(command: ChatCommand, work: (exchange: Exchange) => Promise<T>): Promise<T> => {
    const exchange = new Exchange(port, command, port.router.table(), open)
    open.add(exchange)
    command.signal.addEventListener('abort', exchange)
    try {
      return await work(exchange)
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
  }
  return {
    complete: (command) => during(command, run),
    during,
    get open() {
      return open.size
    },
    abortAll: () => {
      for (const exchange of [...open]) exchange.abort('shutdown')
    },
  }
}
