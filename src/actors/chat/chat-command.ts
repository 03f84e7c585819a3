import type { FailedTry } from '../../db/queries/requests/request-records.ts'
import type { ProblemCode } from '../../errors.ts'
import type { Grant } from '../../host/budget.ts'
import type { RequestId } from '../../ids.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { Access } from '../accounts/access.ts'
import type { InferenceRequest, Operation } from '../operations/operation.ts'
import type { Ticket } from '../pool/waiting-line.ts'
import type { Span } from '../telemetry/tracing.ts'

/** A request that passed the schema of its operation, and who sent it. */
export interface ChatCommand<B extends InferenceRequest = InferenceRequest> {
  readonly operation: Operation<B>
  readonly requestId: RequestId
  /** `performance.now()` at the start of the handler: `latency_ms` and `ttft_ms` count from here. */
  readonly startedMs: number
  readonly access: Access
  /** Cut down to what the end needs once an answer has begun, so that open streams do not keep their prompts. */
  body: B
  /** The body as it came; cut down in the same way. */
  text: string
  /** The models that the client names, in their order; absent or null: the one of `body`. The one whose turn it is stands in `body`. */
  readonly models?: readonly string[] | null
  /** As the client sent it; looked at where the request is billed. */
  readonly idempotencyKey: string | null
  /** `X-SVC-Nonce`: the receipt shall commit to what was sent and answered (§31). */
  readonly clientNonce: string | null
  /** `X-SVC-Session`; null: none was sent. */
  readonly session: string | null
  /** Without the `?`. */
  readonly query: string
  /** The one node the client wants, body and query already agreed. */
  readonly pin: string | null
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** Its place in the line for a slot; absent until it has to wait. */
  ticket?: Ticket | undefined
  /** Under which its calls stand; null or absent: no trace is recorded. */
  readonly span?: Span | null
  readonly recorder: ChatRecorder
}

export interface ChatRecorder {
  /** Called once, when all is over: after a stream's last byte, too. */
  record(record: ChatRecord): void
}

/**
 * The answer's limit of tokens that the request names; null without one. Members outside of the schema do not count,
 * because they are unchecked.
 */
export const outputAsked = ({ operation, body }: ChatCommand): number | null =>
  operation.generates ? (body.max_tokens ?? body.max_completion_tokens ?? null) : null

/** `headers`: the state of the account's limits (`RateLimit`, …). */
export type ChatAnswer = {
  readonly headers: Readonly<Record<string, string>>
} /** `kept`: closed once the client has it; null: it is too small to count. */ & (
  | { readonly kind: 'whole'; readonly body: string; readonly kept: Grant | null }
  | { readonly kind: 'stream'; readonly stream: ReadableStream<string> }
  /** The node's own bytes. */
  | { readonly kind: 'bytes'; readonly contentType: string; readonly stream: ReadableStream<Uint8Array> }
)

/** How a request ended, for metrics and the log line; exactly one per command. */
export interface ChatRecord {
  /**
   * The client's name for the model, or null if no such model exists, so that clients cannot fill the metrics with
   * names.
   */
  readonly model: string | null
  /** HTTP status; 499: the client left. A failure inside a stream has the status of its code. */
  readonly status: number
  readonly code: ProblemCode | null
  readonly latencyMs: number
  /** To the first content; null: there was none, or the node was not asked for a stream. */
  readonly ttftMs: number | null
  readonly usage: TokenUsage | null
  readonly attempts: number
  /** The last one that was called; null: none was. */
  readonly nodeId: string | null
  /** The wait for a slot, and for the load of the last call's model; null if it was in memory or not measured. */
  readonly queueMs: number
  readonly loadMs: number | null
  /** From the start to the last call of a node. */
  readonly sentMs: number | null
  /** Of the prompt, found in the node's cache as it says; null: it does not. */
  readonly cachePercent: number | null
  readonly costWei: bigint | null
  readonly receiptHash: string | null
  /** Calls before the last one, and the last where it failed; null: none did. */
  readonly failedTries: readonly FailedTry[] | null
  /** The caller's own correlation id. */
  readonly jobId: string | null
}

/** Of a request for which no node was called by itself. */
export const uncalled = {
  nodeId: null,
  queueMs: 0,
  loadMs: null,
  sentMs: null,
  cachePercent: null,
  costWei: null,
  receiptHash: null,
  failedTries: null,
} as const satisfies Partial<ChatRecord>
