import { Problem } from '../errors.ts'
import type { Route } from '../machines/routing.ts'
import { answerEnd } from '../protocol/answer-end.ts'
import type { UpstreamBody } from '../protocol/upstream-request.ts'
import type { AttemptFailure } from './attempt.ts'
import type { TryBudget } from './dispatch.ts'
import type { Exchange } from './exchange.ts'
import { callNode, isFailure } from './node-call.ts'
import type { Relay } from './relay.ts'
import type { RelayEnd, SettledStream } from './relay-port.ts'
import { finishReasons } from './tracing.ts'

/** Settles a stream however it ended: what the node delivered is metered and gets its receipt. */
export function endStream(exchange: Exchange, end: RelayEnd): SettledStream {
  const { command } = exchange
  const { usage, estimated } = exchange.usageOf(end.usage, () => end.outputWeight)
  const nowMs = performance.now()
  const ttftMs = end.firstContentMs === null ? null : end.firstContentMs - command.startedMs
  let members = ''
  if (end.attempt !== null) {
    const { startedMs, span, route } = end.attempt
    if (span !== null) span.endCall({ model: route.modelId, usage, finishReasons: finishReasons(end.finish) }, end.code)
    if (end.kind === 'complete') {
      end.attempt.release({
        kind: 'ok',
        ttftMs: (end.firstContentMs ?? nowMs) - startedMs,
        durationMs: nowMs - startedMs,
        completionTokens: usage.completion_tokens,
      })
    } else if (end.kind === 'client_gone' || end.code === 'server_shutdown') end.attempt.release({ kind: 'neutral' })
    else {
      end.attempt.release({ kind: 'failed', cause: 'connect', keyId: command.access.keyId ?? '' })
      exchange.port.failed(end.code ?? 'node_lost')
    }
    if (end.kind === 'complete' || ttftMs !== null) {
      const vouched = end.kind === 'complete' ? { svc: end.svc } : null
      const metered = { usage, estimated, vouched }
      members = answerEnd(usage, exchange.settle(end.attempt, metered, ttftMs ?? nowMs - command.startedMs))
    }
  }
  const delivered = end.kind === 'complete' || ttftMs !== null
  const status =
    end.kind === 'complete' ? 200 : end.kind === 'client_gone' ? 499 : new Problem(end.code ?? 'internal_error').status
  exchange.finish(status, end.code, delivered ? usage : null, ttftMs)
  return { members, durable: exchange.durable }
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
  const attempt = exchange.begin(route)
  relay.expect(attempt, performance.now() + budget.firstChunkMs)
  const response = await callNode(exchange, attempt, upstream)
  if (isFailure(response)) return { failure: response }
  const failure = await relay.attach(attempt, response)
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
