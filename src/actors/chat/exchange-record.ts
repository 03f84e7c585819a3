import type { FailedTry } from '../../db/queries/requests/request-records.ts'
import type { ProblemCode } from '../../errors.ts'
import type { RequestId } from '../../ids.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { Attempt } from '../relay/attempt.ts'
import type { CallStart } from '../telemetry/tracing.ts'
import type { ChatCommand, ChatRecord } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'

/** How a request ended. */
export interface ExchangeEnd {
  readonly status: number
  readonly code: ProblemCode | null
  readonly usage: TokenUsage | null
  readonly ttftMs: number | null
}

/** A request, as far as its record says something of it. */
interface Recorded {
  readonly command: ChatCommand
  readonly attempt: Attempt | null
  readonly attempts: number
  readonly parts: { readonly costWei?: bigint | null } | null
  readonly paid: { readonly chargedWei: bigint | null } | null
  readonly queueMs: number
  readonly loadWaitMs: number
  readonly receiptHash: string | null
  readonly failedTries: readonly FailedTry[] | null
  modelId(): string | null
}

/** A call in a trace, with the name that an operator gave the node, never an id or an address. */
export function tracedCall(
  {
    command: { operation, body },
    port: { router },
  }: { readonly command: ChatCommand; readonly port: Pick<ChatPort, 'router'> },
  { modelId: model, nodeId }: Route,
  requestId: RequestId,
): CallStart {
  const name = router.nodeName(nodeId)
  return { operation: operation.name, model, requestId, nodeName: name === nodeId ? null : name, body }
}

export function failedTry(
  { startedMs }: Pick<ChatCommand, 'startedMs'>,
  attempt: Attempt,
  code: ProblemCode,
): FailedTry {
  return {
    node_id: attempt.route.nodeId,
    code,
    started_ms: attempt.startedMs - startedMs,
    duration_ms: performance.now() - attempt.startedMs,
  }
}

/** Its wait for a load, started by itself or by another request. */
function loadMsOf({ attempt, loadWaitMs }: Pick<Recorded, 'attempt' | 'loadWaitMs'>): number | null {
  const own = attempt?.loadMs ?? null
  return own === null && loadWaitMs === 0 ? null : loadWaitMs + (own ?? 0)
}

function cachePercentOf({ attempt }: Pick<Recorded, 'attempt'>, usage: TokenUsage | null): number | null {
  const share = attempt?.cachedShare(usage?.prompt_tokens ?? 0) ?? null
  return share === null ? null : Math.round(share * 100)
}

/** What is kept of a request: never content, never an address (§32). */
export function recordOf(exchange: Recorded, { status, code, usage, ttftMs }: ExchangeEnd): ChatRecord {
  const { command, attempt, parts, paid } = exchange
  return {
    model: exchange.modelId(),
    status,
    code,
    latencyMs: performance.now() - command.startedMs,
    ttftMs,
    usage,
    attempts: exchange.attempts,
    nodeId: attempt?.route.nodeId ?? null,
    queueMs: exchange.queueMs,
    loadMs: loadMsOf(exchange),
    sentMs: attempt === null ? null : attempt.startedMs - command.startedMs,
    cachePercent: cachePercentOf(exchange, usage),
    costWei: parts?.costWei ?? paid?.chargedWei ?? null,
    receiptHash: exchange.receiptHash,
    failedTries: exchange.failedTries,
    jobId: command.body.svc?.job_id ?? null,
  }
}
