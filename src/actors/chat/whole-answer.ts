import { type Grant, textBytes } from '../../host/budget.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { longBytesMin } from '../../protocol/chat/answer-bounds.ts'
import { GatheredAnswer } from '../../protocol/chat/gathered-answer.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { countedText } from '../../transport/counted-text.ts'
import { gather } from '../../transport/gather.ts'
import type { NodeResponse } from '../../transport/transport.ts'
import type { WholeAnswer } from '../operations/operation.ts'
import { promisedEnd } from '../promises/promised-end.ts'
import type { Attempt, AttemptFailure } from '../relay/attempt.ts'
import { finishReasons } from '../telemetry/tracing.ts'
import type { ChatAnswer, ChatCommand } from './chat-command.ts'
import type { Exchange } from './exchange.ts'
import type { Conclusion } from './exchange-receipt.ts'
import { afford, callNode, failedAnswer } from './node-call.ts'

/** A node's whole answer may not be larger, bytes. */
export const answerBytesMax = 16 * 1024 * 1024

/** A node's answer, metered. It is not recorded yet, and the exchange has not ended. */
export interface ReceivedAnswer {
  readonly completion: WholeAnswer
  readonly usage: TokenUsage
  readonly conclusion: Conclusion
  /**
   * From the start of the request; null if there was no content, or if it is unknown because the node did not stream.
   */
  readonly firstContentMs: number | null
}

export interface ReadAnswer {
  readonly completion: WholeAnswer
  /** `performance.now()`; null as in `ReceivedAnswer`. */
  readonly firstContentMs: number | null
}

/** What came in place of an answer. */
interface ReadError {
  readonly said: string
}

export function readWhole(text: string, { operation, body }: ChatCommand, route: Route): ReadAnswer | ReadError {
  const completion = operation.readWhole(text, body, route)
  return completion === null ? { said: text } : { completion, firstContentMs: null }
}

/** Of a long answer reading, committing and writing each have a turn of the event loop. */
const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** The same answer, asked for as a stream. */
async function readStream(
  exchange: Exchange,
  response: NodeResponse,
  attempt: Attempt,
): Promise<(ReadAnswer & { readonly long: boolean }) | ReadError> {
  const answer = new GatheredAnswer((bytes) => exchange.keeps(bytes))
  const { SVC_FINISH_HOLD_MS: usageWaitMs } = exchange.port.config
  const { complete, firstContentMs } = await gather(response, answer, attempt.signal, usageWaitMs)
  if (!complete) return { said: answer.errorSaid }
  exchange.arrived()
  const turn = exchange.port.largeWork.turn(answer.keptBytes)
  if (turn !== null) await turn
  return { completion: answer.completion(), firstContentMs, long: answer.long }
}

/** Calls one node for a whole answer: by allow-list, metered. */
export async function receiveWhole(
  exchange: Exchange,
  route: Route,
  upstream: UpstreamBody,
): Promise<ReceivedAnswer | { readonly failure: AttemptFailure }> {
  const ended = exchange.ended()
  if (ended !== null) return { failure: ended }
  const attempt = exchange.begin(route, upstream.stream)
  const affording = exchange.isBilled(route) ? afford(exchange, attempt) : null
  const unsent = affording === null ? null : await affording
  if (unsent !== null) return { failure: unsent }
  let firstByteMs: number
  let read: ReadAnswer | ReadError
  let long = false
  try {
    const response = await callNode(exchange, attempt, upstream)
    if (response.status !== 200) return { failure: await failedAnswer(attempt, response) }
    firstByteMs = performance.now()
    if (upstream.stream) {
      const streamed = await readStream(exchange, response, attempt)
      read = streamed
      long = !('said' in streamed) && streamed.long
    } else {
      const text = await countedText(response, exchange, exchange.port.largeWork, answerBytesMax)
      read = readWhole(text, exchange.command, route)
      long = text.length > longBytesMin
    }
  } catch (error) {
    return { failure: attempt.failedBy(error) }
  }
  if ('said' in read) return { failure: attempt.failedByContent(read.said) }
  if (long) await nextTurn()
  const received = concluded(exchange, attempt, read, firstByteMs)
  if (long) await nextTurn()
  return received
}

/** Of its vectors; null: it asks for none, and gets the model's own. */
export const lengthAsked = (body: object): number | null => (body as { dimensions?: number | null }).dimensions ?? null

/** Ends the call and meters it. */
export function concluded(
  exchange: Exchange,
  attempt: Attempt,
  { completion, firstContentMs }: ReadAnswer,
  firstByteMs: number,
): ReceivedAnswer {
  const { startedMs, operation, body } = exchange.command
  const { vectorLength } = completion
  if (vectorLength !== undefined) {
    exchange.port.vectorLengths.learn(attempt.route.modelId, lengthAsked(body), vectorLength)
  }
  const svc = operation.unvouched === true ? null : completion
  const { usage, estimated } = exchange.usageOf(completion.usage, completion.outputWeight)
  attempt.release({
    kind: 'ok',
    ttftMs: firstContentMs === null ? null : firstContentMs - attempt.startedMs,
    durationMs: performance.now() - attempt.startedMs,
    promptTokens: usage.prompt_tokens,
    completionTokens: usage.completion_tokens,
    cachedTokens: completion.cachedTokens,
  })
  attempt.span?.endCall({ model: attempt.route.modelId, usage, finishReasons: finishReasons(completion.choices) }, null)
  return {
    // What a server reports of its work is for its own account alone (§35).
    completion: exchange.owns(attempt.route) ? completion : { ...completion, timings: null },
    usage,
    conclusion: exchange.conclude(
      attempt,
      { usage, estimated, vouched: svc, whole: true, choices: completion.choices },
      firstByteMs - startedMs,
    ),
    firstContentMs: firstContentMs === null ? null : firstContentMs - startedMs,
  }
}

/** The answer's text. The receipt is kept and the work charged. */
export function writeAnswer(exchange: Exchange, { completion, conclusion }: ReceivedAnswer): string {
  const { command } = exchange
  const body = command.operation.writeWhole(exchange.identity(), completion, conclusion, command.body)
  // Only an answer that stands is charged.
  exchange.record(conclusion)
  return body
}

/** An answer on its way to its client, as the door gets it. */
export type SentAnswer = Extract<ChatAnswer, { readonly kind: 'whole' }>

const noHeaders = {}
/** The state of the account's limits. */
export const limitHeaders = ({ admission }: Exchange): ChatAnswer['headers'] => admission?.headers ?? noHeaders

/** `kept`: closed once the client has it; null: it is too small to count. */
export const sentAnswer = (exchange: Exchange, body: string, kept: Grant | null): SentAnswer => ({
  kind: 'whole',
  body,
  kept,
  headers: limitHeaders(exchange),
})

export type WholeTry = SentAnswer | { readonly failure: AttemptFailure }

/** One try of a request without a stream, however the node is asked. */
export async function tryReceived(exchange: Exchange, route: Route, upstream: UpstreamBody): Promise<WholeTry> {
  const received = await receiveWhole(exchange, route, upstream)
  if ('failure' in received) return received
  const written = writeAnswer(exchange, received)
  const body = await (promisedEnd(exchange, written, received.conclusion.metadata) ?? written)
  const kept = exchange.handOver(textBytes(body.length))
  exchange.finish(200, null, received.usage, received.firstContentMs)
  return sentAnswer(exchange, body, kept)
}
