import { Problem } from '../../errors.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { answerEnd } from '../../protocol/chat/answer-end.ts'
import type { TokenUsage } from '../../protocol/chat/chunk-rewriter.ts'
import type { UpstreamBody } from '../../protocol/chat/upstream-request.ts'
import { finishReasons } from '../telemetry/tracing.ts'
import type { AttemptFailure } from './attempt.ts'
import type { TryBudget } from './dispatch.ts'
import type { Conclusion, Exchange } from './exchange.ts'
import { callNode, isFailure } from './node-call.ts'
import type { Relay } from './relay.ts'
import type { RelayEnd, SettledStream } from './relay-port.ts'

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
      ttftMs: (firstContentMs ?? nowMs) - attempt.startedMs,
      durationMs: nowMs - attempt.startedMs,
      completionTokens: usage.completion_tokens,
      cachedTokens,
    })
  } else if (kind === 'client_gone' || code === 'server_shutdown') attempt.release({ kind: 'neutral' })
  else {
    attempt.release({ kind: 'failed', cause: 'connect', keyId: exchange.command.access.keyId ?? '' })
    exchange.port.failed(code ?? 'node_lost')
  }
}

/** The terminal chunk with its `svc`; null where it cannot be built. */
function terminalOf(end: RelayEnd, { usage, metadata }: Conclusion): string | null {
  try {
    return end.terminal(answerEnd(usage, metadata))
  } catch {
    return null
  }
}

const statusOf = ({ kind, code }: RelayEnd) =>
  kind === 'complete' ? 200 : kind === 'client_gone' ? 499 : new Problem(code ?? 'internal_error').status

/** Settles a stream however it ended: what the node delivered is metered, gets its receipt and is charged. */
export function endStream(exchange: Exchange, end: RelayEnd): SettledStream {
  const { startedMs } = exchange.command
  const { attempt, firstContentMs } = end
  const complete = end.kind === 'complete'
  const { usage, estimated } = exchange.usageOf(end.usage, () => end.outputWeight)
  const ttftMs = firstContentMs === null ? null : firstContentMs - startedMs
  attempt?.span?.endCall({ model: attempt.route.modelId, usage, finishReasons: finishReasons(end.finish) }, end.code)
  release(end, exchange, usage)
  const delivered = complete || ttftMs !== null
  let terminal: string | null = null
  if (attempt !== null && delivered) {
    const told = { usage, estimated, vouched: complete ? { svc: end.svc } : null }
    const conclusion = exchange.conclude(attempt, told, ttftMs ?? performance.now() - startedMs)
    if (complete) terminal = terminalOf(end, conclusion)
    // Only an end that stands is charged (§27).
    if (!complete || terminal !== null) exchange.record(conclusion)
  }
  if (complete && terminal === null) exchange.finish(500, 'internal_error', null, null)
  else exchange.finish(statusOf(end), end.code, delivered ? usage : null, ttftMs)
  return { terminal, durable: exchange.durable }
}

/** One try of a stream: resolves at the node's first chunk, the rest flows by itself. */
export async function tryStream(
  exchange: Exchange,
  relay: Relay,
  route: Route,
  upstream: UpstreamBody,
  budget: TryBudget,
): Promise<{ readonly streaming: true } | { readonly failure: AttemptFailure }> {
  if (exchange.isBilled(route) && !(await exchange.afford(route))) {
    return { failure: { code: 'node_lost', failover: false } }
  }
  const attempt = exchange.begin(route, true)
  relay.expect(attempt, performance.now() + budget.firstChunkMs)
  const response = await callNode(exchange, attempt, upstream)
  if (isFailure(response)) return { failure: response }
  const failure = await relay.attach(attempt, response)
  if (failure === null) exchange.port.router.began(route, attempt)
  return failure === null ? { streaming: true } : { failure }
}

/** Resolves when the first chunk is there or the status can wait no longer; later failures go into the stream. */
export function committed(exchange: Exchange, relay: Relay, running: Promise<unknown>): Promise<void> {
  const { config } = exchange.port
  return new Promise((resolve, reject) => {
    let late = false
    const timer = setTimeout(() => {
      late = true
      relay.commitEarly()
      resolve()
    }, config.SVC_HEADER_COMMIT_MS)
    running.then(
      () => {
        clearTimeout(timer)
        if (!late) relay.commit()
        resolve()
      },
      (error: unknown) => {
        clearTimeout(timer)
        if (late) relay.fail(error instanceof Problem ? error : new Problem('internal_error'))
        else reject(error)
      },
    )
  })
}
