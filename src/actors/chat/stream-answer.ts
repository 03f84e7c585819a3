import { Problem } from '../../errors.ts'
import type { Grant } from '../../host/budget.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { promisedEnd, promiseUnitsMax } from '../promises/promised-end.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import type { Relay } from '../relay/relay.ts'
import type { RelayEnd, RelayOwner, SettledStream } from '../relay/relay-port.ts'
import { finishReasons } from '../telemetry/tracing.ts'
import type { Exchange } from './exchange.ts'
import type { Conclusion } from './exchange-receipt.ts'
import { afford, callNode, failedAnswer } from './node-call.ts'

function release(
  { kind, code, attempt, firstContentMs, cachedTokens }: RelayEnd,
  exchange: Exchange,
  usage: TokenUsage,
): void {
  if (attempt === null) return
  const nowMs = performance.now()
  if (kind === 'complete') {
    attempt.release({
      kind: 'ok',
      ttftMs: firstContentMs === null ? null : firstContentMs - attempt.startedMs,
      durationMs: nowMs - attempt.startedMs,
      promptTokens: usage.prompt_tokens,
      completionTokens: usage.completion_tokens,
      cachedTokens,
    })
  } else if (kind === 'client_gone' || code === 'server_shutdown' || code === 'rate_limited') {
    attempt.release({ kind: 'neutral' })
  } else {
    attempt.release({ kind: 'failed', cause: 'connect', keyId: exchange.command.access.keyId ?? '' })
    exchange.port.failed(code ?? 'node_lost')
  }
}

type Terminal = Pick<SettledStream, 'terminal' | 'unbuilt'>
const noTerminal: Terminal = { terminal: null, unbuilt: 'internal_error' }

/** The terminal chunk with its `svc`; null where it cannot be built, or repeats more than may be written. */
function terminalOf(end: RelayEnd, conclusion: Conclusion): Terminal {
  try {
    const terminal = end.writer.last(conclusion, end.usageApart)
    const promise = conclusion.metadata.receipt === undefined ? 0 : promiseUnitsMax
    if (Buffer.byteLength(terminal) + promise > end.bytesLeft) return { terminal: null, unbuilt: 'upstream_error' }
    return { terminal, unbuilt: 'internal_error' }
  } catch {
    return noTerminal
  }
}

const statusOf = ({ kind, code }: RelayEnd) =>
  kind === 'complete' ? 200 : kind === 'client_gone' ? 499 : new Problem(code ?? 'internal_error').status

/** Settles the stream of one request. */
export class StreamOwner implements RelayOwner {
  constructor(private readonly exchange: Exchange) {}

  settle(end: RelayEnd): SettledStream {
    return endStream(this.exchange, end)
  }

  keeps(bytes: number): boolean {
    return this.exchange.keeps(bytes)
  }

  leaves(bytes: number): Grant | null {
    return this.exchange.handOver(bytes)
  }

  skipped(): void {
    this.exchange.port.failed('malformed_line')
  }
}

/** Settles a stream after any kind of end: meters, receipts and charges the delivered part. */
function endStream(exchange: Exchange, end: RelayEnd): SettledStream {
  const { startedMs } = exchange.command
  const { attempt, firstContentMs } = end
  const complete = end.kind === 'complete'
  const { usage, estimated } = exchange.usageOf(end.usage, () => end.outputWeight)
  const ttftMs = firstContentMs === null ? null : firstContentMs - startedMs
  attempt?.span?.endCall({ model: attempt.route.modelId, usage, finishReasons: finishReasons(end.finish) }, end.code)
  release(end, exchange, usage)
  // An answer without content has no first token and is one all the same, once the node has said that it is over.
  const delivered = complete || ttftMs !== null || end.finish !== null
  let built = noTerminal
  let promised: Promise<string> | null = null
  if (attempt !== null && delivered) {
    const choices = complete ? (end.writer.choices?.() ?? null) : null
    const streamed = { usage, estimated, vouched: { svc: end.svc }, whole: complete, choices }
    const conclusion = exchange.conclude(attempt, streamed, ttftMs ?? performance.now() - startedMs)
    if (complete) built = terminalOf(end, conclusion)
    // Only an end that stands is charged (§27).
    if (!complete || built.terminal !== null) exchange.record(conclusion)
    if (built.terminal !== null) promised = promisedEnd(exchange, built.terminal, conclusion.metadata)
  }
  const { terminal, unbuilt } = built
  if (complete && terminal === null) exchange.finish(new Problem(unbuilt).status, unbuilt, null, null)
  else exchange.finish(statusOf(end), end.code, delivered ? usage : null, ttftMs)
  return { terminal, unbuilt, promised }
}

const streaming = { streaming: true } as const

/** One try of a stream: resolves at the node's first chunk, the rest flows by itself. */
export async function tryStream(
  exchange: Exchange,
  relay: Relay,
  route: Route,
  upstream: UpstreamBody,
  firstChunkMs: number,
): Promise<typeof streaming | { readonly failure: AttemptFailure }> {
  const ended = exchange.ended()
  if (ended !== null) return { failure: ended }
  const attempt = exchange.begin(route, true)
  const affording = exchange.isBilled(route) ? afford(exchange, attempt) : null
  const unsent = affording === null ? null : await affording
  if (unsent !== null) return { failure: unsent }
  relay.expect(attempt, performance.now() + firstChunkMs, exchange.owns(route))
  let failure: AttemptFailure | null
  try {
    const response = await callNode(exchange, attempt, upstream)
    if (response.status === 200) {
      failure = await relay.attach(attempt, response)
      if (failure !== null) return { failure }
      exchange.port.router.began(route, attempt)
      return streaming
    }
    failure = await failedAnswer(attempt, response)
  } catch (error) {
    failure = attempt.failedBy(error)
  }
  relay.letGo()
  return { failure }
}
