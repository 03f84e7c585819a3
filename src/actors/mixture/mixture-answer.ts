import { ulid } from '../../ids.ts'
import { subCallsOf, traceOf, usageOf } from '../../machines/mixture/report.ts'
import { strategies } from '../../machines/mixture/strategies/registry.ts'
import { isMetered, type MixtureConfig, type MixtureEnd, type MixtureReport } from '../../machines/mixture/types.ts'
import { answerEvents, type BufferedAnswer } from '../../protocol/chat/completion-stream.ts'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import { chat } from '../operations/chat.ts'
import type { MixtureOutcome, MixtureRecord, SubCallRecord } from './mixture-records.ts'
import type { MixtureCommand } from './mixture-run.ts'

export type SucceededReport = MixtureReport & {
  readonly end: MixtureEnd & { readonly kind: 'succeeded' }
  readonly config: MixtureConfig
}
export const isSucceeded = (report: MixtureReport): report is SucceededReport =>
  report.end.kind === 'succeeded' && report.config !== null

export const usageOfReport = ({ experts, aggregator }: MixtureReport) => usageOf([...experts, aggregator])

/**
 * `svc` of the answer. It is that of the sub-call that gave the answer, except that times and usage are the mixture's.
 */
function metadataOf(report: SucceededReport, { requestId, startedMs }: MixtureCommand): ChatMetadata {
  const { call } = report.end
  const trace = traceOf(report)
  const latencyMs = Math.round(performance.now() - startedMs)
  return {
    runtime_id: call.runtimeId,
    runtime_kind: call.runtimeKind,
    latency_ms: latencyMs,
    // Nothing is sent before every sub-call has ended (specification, mixture rule 5).
    ttft_ms: latencyMs,
    receipt_hash: call.receiptHash,
    request_id: requestId,
    ...(usageOfReport(report).estimated ? { usage_estimated: true } : {}),
    ...(trace === null ? {} : { mixture: trace }),
  }
}

export function bufferedAnswer(report: SucceededReport, command: MixtureCommand): BufferedAnswer {
  const { config, end } = report
  const aggregates = strategies[config.strategy].kind === 'aggregating'
  const model = aggregates && config.aggregator !== null ? config.aggregator : command.body.model
  const asked: { readonly include_usage?: unknown } = command.body.stream_options ?? {}
  const { message, finish_reason: finishReason, logprobs } = end.choice
  return {
    identity: { id: command.operation.idPrefix + ulid(), created: Math.floor(Date.now() / 1_000), model },
    message,
    finishReason,
    ...(logprobs === undefined ? {} : { logprobs }),
    usage: usageOfReport(report).usage,
    metadata: metadataOf(report, command),
    separateUsage: asked.include_usage === true,
  }
}

/** The body of a whole answer, in the operation's own shape. */
export function wholeBody(answer: BufferedAnswer, { operation, body }: MixtureCommand): string {
  if (operation === chat) return chatBody(answer)
  const { identity, message, finishReason, usage, metadata } = answer
  const choices = [{ index: 0, message, finish_reason: finishReason }]
  const whole = { choices, usage, cachedTokens: null, svc: undefined, outputWeight: () => 0 }
  return operation.writeWhole(identity, whole, { usage, metadata }, body)
}

/** The events of a buffered answer, in the operation's own shape. */
export function* streamEvents(answer: BufferedAnswer, { operation, body }: MixtureCommand): Generator<string> {
  const writer = operation === chat ? undefined : operation.writer?.(answer.identity, body, false)
  if (writer === undefined) return yield* answerEvents(answer)
  for (const event of answerEvents({ ...answer, separateUsage: false })) {
    const accepted = writer.accept(event.slice('data: '.length).trimEnd())
    if (accepted.kind === 'chunk') yield accepted.text
  }
  yield writer.last(answer, false)
}

function chatBody({ identity, message, finishReason, logprobs, usage, metadata }: BufferedAnswer): string {
  return JSON.stringify({
    id: identity.id,
    object: 'chat.completion',
    created: identity.created,
    model: identity.model,
    choices: [{ index: 0, message, finish_reason: finishReason, ...(logprobs === undefined ? {} : { logprobs }) }],
    usage,
    svc: metadata,
  })
}

function outcomeOf(report: MixtureReport, degraded: boolean): MixtureOutcome {
  const { end, experts } = report
  if (end.kind === 'cancelled') return 'cancelled'
  if (end.kind === 'succeeded') return degraded ? 'degraded' : 'succeeded'
  if (end.problem.code === 'mixture_quorum_not_met') return 'quorum_not_met'
  return experts.length === 0 && end.problem.status < 500 ? 'refused' : 'failed'
}

/** `strategy` is the name in the request, one of the registry. */
export function recordOf(report: MixtureReport, strategy: string, command: MixtureCommand): MixtureRecord {
  const latencyMs = performance.now() - command.startedMs
  const endedAtMs = Date.now()
  const degraded = report.end.kind === 'succeeded' && traceOf(report)?.degraded === true
  const experts = subCallsOf(report).map(({ role, model, result: { status, call } }, at): SubCallRecord => {
    const metered = isMetered(call) ? call : null
    return {
      role,
      model,
      weight: role === 'expert' ? (report.config?.experts[at]?.weight ?? null) : null,
      status,
      nodeId: call?.nodeId ?? '',
      requestId: call?.requestId ?? null,
      receiptHash: metered?.receiptHash ?? null,
      latencyMs: metered === null ? null : Math.round(metered.latencyMs),
      totalTokens: metered?.usage.total_tokens ?? null,
    }
  })
  return {
    requestId: command.requestId,
    customerId: command.access.customerId,
    strategy,
    outcome: outcomeOf(report, degraded),
    code: report.end.kind === 'failed' ? report.end.problem.code : null,
    degraded,
    minExperts: report.config?.minExperts ?? null,
    startedAtMs: Math.round(endedAtMs - latencyMs),
    endedAtMs,
    latencyMs: Math.round(latencyMs),
    experts,
    usage: usageOfReport(report).usage,
  }
}
