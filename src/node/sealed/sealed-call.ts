import type { InferenceRequest, Operation } from '../../actors/operations/operation.ts'
import { noConfidences } from '../../confidences.ts'
import { Problem } from '../../errors.ts'
import { ulid } from '../../ids.ts'
import type { ServingRoute } from '../../machines/rules/routing.ts'
import type { ChunkIdentity, SettledEnd } from '../../protocol/chat/chunk-reader.ts'
import { nodeRefusal, refusalProblem } from '../../protocol/chat/node-refusal.ts'
import { wholeTokens } from '../../protocol/chat/token-estimate.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { SealedUsage } from '../../protocol/wire/nodes/sealed-usage.ts'
import { hourMs, isoTime } from '../../time.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { SignReceipt } from '../receipts/receipt-signer.ts'
import type { LocalRuntime, RuntimeCall } from '../runtimes/local-runtime.ts'
import type { AnswerSealer } from './answer-sealer.ts'
import type { SealedOrder } from './sealed-order.ts'

/** A runtime that needs longer will never finish, ms. A gateway gives up much earlier. */
const callMsMax = hourMs

export interface SealedCallParts {
  readonly order: SealedOrder
  readonly operation: Operation
  readonly body: InferenceRequest
  readonly text: string
  readonly runtime: LocalRuntime
  readonly sealer: AnswerSealer
  readonly sign: SignReceipt
  /** Of an answer that did not go out whole. */
  readonly signBroken: SignReceipt
  /** The encapsulated key as hex, and the hash of the request's bytes: with them both sides can show what it was about. */
  readonly enc: string
  readonly requestCommitment: string
  readonly signal: CallSignal
  readonly released: (call: SealedCall, usage: SealedUsage) => void
}

interface Used {
  readonly usage: TokenUsage
  readonly estimated: boolean
}

const nothing: Used = { usage: { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }, estimated: false }

/** One sealed call at a runtime. It counts as running until it ends. */
export class SealedCall {
  /** Among the open calls of the agent. */
  openPlace = -1
  /** Cuts a stream that has begun; null: the answer is a whole one, or has not begun. */
  stream: { cut(): void } | null = null
  /** Something of its answer has come. */
  spoke = false
  readonly identity: ChunkIdentity
  readonly route: ServingRoute
  readonly startedMs = Date.now()
  private readonly deadline: ReturnType<typeof setTimeout>
  private readonly running: RuntimeCall
  private used: Used = nothing
  private over = false

  constructor(readonly parts: SealedCallParts) {
    const { operation, order, runtime, signal } = parts
    this.running = runtime.begin()
    this.deadline = setTimeout(() => signal.abort(), callMsMax)
    const created = Math.floor(this.startedMs / 1_000)
    this.identity = { id: operation.idPrefix + ulid(), created, model: order.clientModel }
    const { runtimeId, kind: runtimeKind } = runtime
    this.route = { runtimeId, runtimeKind, ranking: null, agent: null, external: false }
  }

  /** Resolves when the model is in memory. */
  opened(): Promise<void> {
    return this.running.opened(this.parts.signal)
  }

  /** Why the runtime refuses this request. `status`: null for an error inside a 200. */
  refusal(status: number | null, said: string): Problem {
    const { order, runtime } = this.parts
    const names = { [order.upstreamModel]: order.clientModel }
    const refusal = nodeRefusal(status, said, { names, confided: runtime.transport?.confided ?? noConfidences })
    return refusal === null ? new Problem('upstream_error') : refusalProblem(refusal)
  }

  /** What the answer's last words say of usage and place. `firstMs`: `Date.now()` of its first content. */
  settle(reported: TokenUsage | null, outputWeight: number, firstMs: number): SettledEnd {
    const { order, runtime } = this.parts
    this.used = { usage: reported ?? this.estimate(outputWeight), estimated: reported === null }
    return {
      usage: this.used.usage,
      metadata: {
        runtime_id: runtime.runtimeId,
        runtime_kind: runtime.kind,
        latency_ms: Date.now() - this.startedMs,
        ttft_ms: firstMs - this.startedMs,
        request_id: order.requestId,
        upstream_model: order.upstreamModel,
        ...(reported === null ? { usage_estimated: true } : {}),
      },
    }
  }

  private estimate(outputWeight: number): TokenUsage {
    const { operation, body } = this.parts
    const prompt = operation.estimate(body).tokens
    const completion = operation.generates ? wholeTokens(outputWeight) : 0
    return { prompt_tokens: prompt, completion_tokens: completion, total_tokens: prompt + completion }
  }

  /** Nothing more will be written. `whole`: all of the answer was, so that the receipt commits to it. */
  end(finish: string, whole: boolean): void {
    if (this.over) return
    this.over = true
    clearTimeout(this.deadline)
    this.running.end()
    this.parts.released(this, this.usage(finish, whole))
  }

  private usage(finish: string, whole: boolean): SealedUsage {
    const { order, runtime, sign, signBroken, enc, requestCommitment, sealer } = this.parts
    const { usage, estimated } = this.used
    const receipt = {
      issuer: 'node',
      requestId: order.requestId,
      jobId: null,
      kind: 'hosted_sealed',
      nodeId: order.nodeId,
      nodeClass: order.nodeClass,
      runtimeId: runtime.runtimeId,
      runtimeKind: runtime.kind,
      modelId: order.modelId,
      promptTokens: usage.prompt_tokens,
      completionTokens: usage.completion_tokens,
      startedAt: isoTime(this.startedMs),
      completedAt: isoTime(Date.now()),
      clientNonce: enc,
      requestCommitment,
      responseCommitment: whole ? sealer.commitment() : null,
      upstreamModelCommitment: null,
    } as const
    const signed = (whole ? sign : signBroken)(receipt, order.timed)
    return { request_id: order.requestId, finish, usage_estimated: estimated, ...signed }
  }
}
