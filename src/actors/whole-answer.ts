import type { Route } from '../machines/routing.ts'
import type { TokenUsage } from '../protocol/chunk-rewriter.ts'
import { completionText, type PublicCompletion, publicCompletion } from '../protocol/completion.ts'
import type { UpstreamBody } from '../protocol/upstream-request.ts'
import type { ChatMetadata } from '../protocol/wire/chat.ts'
import type { AttemptFailure } from './attempt.ts'
import type { Exchange } from './exchange.ts'
import { callNode, isFailure } from './node-call.ts'
import { finishReasons } from './tracing.ts'

/** A node's whole answer may not be larger, bytes. */
const answerBytesMax = 32 * 1024 * 1024

/** What a node answered, metered and with its receipt; the exchange has not ended yet. */
export interface ReceivedAnswer {
  readonly completion: PublicCompletion
  readonly usage: TokenUsage
  readonly svc: ChatMetadata
  readonly ttftMs: number
}

/** Calls one node for a whole answer: by allow-list, metered. */
export async function receiveWhole(
  exchange: Exchange,
  route: Route,
  upstream: UpstreamBody,
): Promise<ReceivedAnswer | { readonly failure: AttemptFailure }> {
  if (exchange.isBilled(route) && !(await exchange.afford(route))) {
    return { failure: { code: 'node_lost', failover: false } }
  }
  const attempt = exchange.begin(route)
  const response = await callNode(exchange, attempt, upstream)
  if (isFailure(response)) return { failure: response }
  const ttfbMs = performance.now()
  let text: string
  try {
    text = await response.text(answerBytesMax)
  } catch (error) {
    return { failure: attempt.failedBy(error) }
  }
  const completion = publicCompletion(text)
  if (completion === null) return { failure: attempt.failedByContent() }
  const { usage, estimated } = exchange.usageOf(completion.usage, completion.outputWeight)
  attempt.release({
    kind: 'ok',
    ttftMs: ttfbMs - attempt.startedMs,
    durationMs: performance.now() - attempt.startedMs,
    completionTokens: usage.completion_tokens,
  })
  attempt.span?.endCall({ model: route.modelId, usage, finishReasons: finishReasons(completion.choices) }, null)
  const ttftMs = ttfbMs - exchange.command.startedMs
  const svc = exchange.settle(attempt, { usage, estimated, vouched: completion }, ttftMs)
  // Billed work is durable before anybody hears of it (decisions §14).
  if (exchange.durable !== null) await exchange.durable
  return { completion, usage, svc, ttftMs }
}

/** One try of a request without a stream. */
export async function tryWhole(
  exchange: Exchange,
  route: Route,
  upstream: UpstreamBody,
): Promise<{ readonly body: string } | { readonly failure: AttemptFailure }> {
  const received = await receiveWhole(exchange, route, upstream)
  if ('failure' in received) return received
  const { completion, usage, svc, ttftMs } = received
  const body = completionText(
    { id: exchange.id, created: exchange.created, model: exchange.command.body.model },
    completion.choices,
    usage,
    svc,
  )
  exchange.finish(200, null, usage, ttftMs)
  return { body }
}
