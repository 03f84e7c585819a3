import { noConfidences } from '../../confidences.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import type { RequestId } from '../../ids.ts'
import type { Work } from '../../machines/placement/reading.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { lacksPath, nodeRefusal, refusalProblem, refusedWork, saysWhy } from '../../protocol/chat/node-refusal.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import { retrySeconds, secondMs } from '../../time.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { TransportError, type TransportFailure } from '../../transport/transport.ts'
import type { CallOutcome, FailedCall, InFlightCall } from '../pool/nodes/in-flight-call.ts'
import type { Router } from '../pool/router.ts'
import type { Span } from '../telemetry/tracing.ts'

/** Why this side ended a call. */
export type AbortCause =
  | 'client_gone'
  | 'first_chunk_timeout'
  | 'total_timeout'
  | 'stream_idle'
  | 'slow_client'
  | 'node_lost'
  | 'shutdown'
  /** The customer's share of the gateway's memory is full. */
  | 'memory'
  /** The answer is complete; what the node still sends does not matter. */
  | 'complete'

/** A call that failed: what the client would hear, and whether another route may be tried. */
export interface AttemptFailure {
  readonly code: ProblemCode
  readonly failover: boolean
  readonly retryAfterSeconds?: number
  /** What the client hears, where the node itself has said it. */
  readonly problem?: Problem
  /** The node finds the prompt too long: its tokens as the node counts them, and the context. */
  readonly tooLong?: { readonly promptTokens: number | null; readonly contextLength: number | null }
  /** The prompt is too long for a context of this many tokens: only a larger one is worth a try. */
  readonly contextAbove?: number
  /**
   * Counts the failure against the route. Present only for a failure that may be the request's own fault: the caller
   * decides once it knows the outcome on other routes. A failure that is certainly the node's has already been counted.
   *
   */
  readonly strike?: () => void
}

/** What a try knows of its operation. */
export interface TriedWork {
  readonly modality: Modality
  /** A path that a server may lack and still do this kind of work; absent: the path of all such servers. */
  readonly ownPath?: string
}

/** Idle connections are closed every few seconds while there are too many. */
const exhaustedRetrySeconds = 5
/** Nothing of the request was sent: the node alone is at fault. */
const beforeRequest: ReadonlySet<TransportFailure> = new Set(['refused', 'dns', 'tls', 'timeout'])
const timeouts: ReadonlySet<AbortCause> = new Set(['first_chunk_timeout', 'total_timeout', 'stream_idle'])

/** One call to one node: it holds a slot from its making until `release`. */
export class Attempt implements InFlightCall {
  readonly signal = new CallSignal()
  callPlace = -1
  startedMs = performance.now()
  /** Its money is being set aside, and the node has heard nothing. */
  unsent = false
  cause: AbortCause | null = null
  span: Span | null = null
  /** What its node was told besides the request. */
  confided = noConfidences
  private released = false
  /** The refusal for a call that was ended for memory. */
  private memoryRefusal: Problem | null = null
  /** Unix ms, where its model was not in memory then. */
  private readonly coldAtMs: number | null
  private answer: Extract<CallOutcome, { kind: 'ok' }> | null = null

  constructor(
    private readonly router: Router,
    readonly route: Route,
    /** Of this call alone: the node hears it and the receipt carries it, so that no two receipts are alike. */
    readonly callId: RequestId,
    private readonly keyId: string,
    readonly work: Work | null = null,
    readonly timed = false,
    private readonly tried: TriedWork = { modality: 'chat' },
  ) {
    this.coldAtMs = route.load.reading.cold ? Date.now() : null
    router.claim(route, this)
  }

  /** Its model was not in memory, and is not yet. */
  get waitsForLoad(): boolean {
    return this.coldAtMs !== null && this.route.load.reading.cold
  }

  /** The wait for the load of its model; null if it was in memory or the load was not observed. */
  get loadMs(): number | null {
    const { loadedAtMs } = this.route.load.reading
    return this.coldAtMs === null || loadedAtMs < this.coldAtMs ? null : loadedAtMs - this.coldAtMs
  }

  /**
   * Of its prompt, 0 to 1, what the node says it found in its cache. null: it says nothing, or gave no answer. What it was thought
   * to hold is a belief, which `explain` shows.
   */
  cachedShare(promptTokens: number): number | null {
    const cachedTokens = this.answer?.cachedTokens ?? null
    return cachedTokens === null || promptTokens <= 0 ? null : Math.min(1, cachedTokens / promptTokens)
  }

  nodeLost(): void {
    this.abort('node_lost')
  }

  /** The first cause stands. */
  abort(cause: AbortCause): void {
    if (this.cause !== null || this.released) return
    this.cause = cause
    this.signal.abort()
  }

  outOfMemory(refusal: Problem): void {
    this.memoryRefusal ??= refusal
    this.abort('memory')
  }

  release(outcome: CallOutcome): void {
    if (this.released) return
    this.released = true
    if (outcome.kind === 'ok') {
      this.answer = outcome
      if (this.route.workGuessed) this.router.proved(this.route, this.tried.modality)
    }
    // What was answered has ended its span by itself, with what it used.
    if (this.span !== null && outcome.kind !== 'ok') this.span.end(null)
    this.router.release(this.route, this, outcome)
  }

  /** Releases the slot of a call that failed before its answer, by what the transport or this side says. */
  failedBy(error: unknown): AttemptFailure {
    if (this.cause !== null) return this.failedByCause(this.cause)
    const transport = error instanceof TransportError ? error.failure : 'closed'
    if (transport === 'exhausted') {
      this.span?.end('service_unavailable')
      this.release({ kind: 'neutral' })
      return { code: 'service_unavailable', failover: false, retryAfterSeconds: exhaustedRetrySeconds }
    }
    const code = transport === 'timeout' ? 'upstream_timeout' : 'upstream_error'
    const failed = { cause: transport === 'timeout' ? 'timeout' : 'connect', transport, keyId: this.keyId } as const
    return this.failure({ code, failover: true }, failed)
  }

  private failure(failure: AttemptFailure, failed: FailedCall): AttemptFailure {
    if (this.waitsForLoad) {
      this.span?.end(failure.code)
      this.release({ kind: 'failed', ...failed, cause: 'load' })
      return { ...failure, failover: true }
    }
    const doubtful = failed.transport === undefined || !beforeRequest.has(failed.transport)
    this.span?.end(failure.code)
    this.release({ kind: 'failed', ...failed, doubtful })
    return doubtful ? { ...failure, strike: () => this.router.strike(this.route, failed) } : failure
  }

  failedByCause(cause: AbortCause): AttemptFailure {
    if (timeouts.has(cause)) {
      const code = cause === 'stream_idle' ? 'stream_idle_timeout' : 'upstream_timeout'
      const failover = cause === 'first_chunk_timeout'
      return this.failure({ code, failover }, { cause: 'timeout', keyId: this.keyId })
    }
    if (cause === 'memory' && this.memoryRefusal !== null) return this.failedByRequest(this.memoryRefusal)
    const code = cause === 'node_lost' ? cause : 'server_shutdown'
    // A client that left is no failure of the call.
    this.span?.end(cause === 'client_gone' ? null : code)
    this.release({ kind: 'neutral' })
    return { code, failover: cause === 'node_lost' }
  }

  /** By the HTTP status of the node and, where it says why, its body, of which nothing is shown that names its machine. */
  failedByStatus(status: number, retryAfter: string | null, body: string): AttemptFailure {
    const refused = this.failedTrial(status, body) ?? this.refusedBy(status, body) ?? this.withoutPath(status, body)
    if (refused !== null) return refused
    const failure = statusFailure(status, retryAfter)
    if (status >= 500) return this.failure(failure, { cause: 'server_error', keyId: this.keyId })
    this.span?.end(failure.code)
    this.release({ kind: 'neutral' })
    return failure
  }

  /** A 200 that carries an error or no completion at all; `content`: what it carries. */
  failedByContent(content: string): AttemptFailure {
    const failure = { code: 'upstream_error', failover: true } as const
    if (this.onTrial) return this.otherWork(null)
    return this.refusedBy(null, content) ?? this.failure(failure, { cause: 'server_error', keyId: this.keyId })
  }

  /** What the body says decides whose fault this status is. */
  readsWhy(status: number): boolean {
    return saysWhy(status) || (this.tried.ownPath !== undefined && status === 404)
  }

  /** null: its server has the path, or what it says speaks of the model. */
  private withoutPath(status: number, body: string): AttemptFailure | null {
    const { ownPath, modality } = this.tried
    if (ownPath === undefined || !lacksPath(status, body)) return null
    const instead = modality === 'chat' ? ' Use /v1/chat/completions.' : ''
    const detail = `The server of ${this.route.modelId} has no ${ownPath}.${instead}`
    return {
      ...this.failedByRequest(new Problem('modality_not_supported', { param: 'model', detail })),
      failover: true,
    }
  }

  /** The request itself is at fault: it broke off on its way to the node, or its answer is more than its customer may keep. */
  failedByRequest(problem: Problem): AttemptFailure {
    const { code } = problem
    this.span?.end(code)
    this.release({ kind: 'neutral' })
    return { code, failover: false, problem }
  }

  /** Its route may not do this kind of work (§35). */
  private get onTrial(): boolean {
    return !this.route.serves.includes(this.tried.modality)
  }

  /** null: it was no trial, or what the node says does not speak of the kind of work. */
  private failedTrial(status: number, body: string): AttemptFailure | null {
    if (!this.onTrial) return null
    const { upstreamModelId, modelId } = this.route
    const words = refusedWork(status, body, { names: { [upstreamModelId]: modelId }, confided: this.confided })
    return words === null ? null : this.otherWork(words)
  }

  /** The guess was wrong, which is no fault of the node; another one may do this work. `words`: the node's own. */
  private otherWork(words: string | null): AttemptFailure {
    const detail = `${this.route.modelId} was tried for this kind of work (${this.tried.modality}), and its server does not do it.`
    const said = words === null || words === '' ? detail : `${detail} The node says: ${words}`
    return {
      ...this.failedByRequest(new Problem('modality_not_supported', { param: 'model', detail: said })),
      failover: true,
    }
  }

  /** The node is well, and does not serve this request; another would not either, but for one with a larger context. */
  private refusedBy(status: number | null, body: string): AttemptFailure | null {
    const { upstreamModelId, modelId, contextLength } = this.route
    const refusal = nodeRefusal(status, body, { names: { [upstreamModelId]: modelId }, confided: this.confided })
    if (refusal === null) return null
    const { code } = refusal
    this.span?.end(code)
    this.release({ kind: 'neutral' })
    const failure = { code, failover: false, problem: refusalProblem(refusal) }
    if (code !== 'context_length_exceeded') return failure
    const contextAbove = refusal.contextLength ?? contextLength
    const tooLong = { promptTokens: refusal.promptTokens, contextLength: contextAbove }
    return contextAbove === null ? { ...failure, tooLong } : { ...failure, tooLong, failover: true, contextAbove }
  }
}

function statusFailure(status: number, retryAfter: string | null): AttemptFailure {
  const seconds = Number(retryAfter)
  const said = Number.isInteger(seconds) && seconds > 0 ? { retryAfterSeconds: retrySeconds(seconds * secondMs) } : null
  if (status === 429) return { code: 'capacity_exhausted', failover: true, retryAfterSeconds: 1, ...said }
  // Such as an agent whose model server has crashed, and who knows when it starts it again.
  return { code: 'upstream_error', failover: true, ...(status === 503 ? said : null) }
}
