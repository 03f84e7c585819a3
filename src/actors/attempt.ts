import type { ProblemCode } from '../errors.ts'
import type { RequestId } from '../ids.ts'
import type { Route } from '../machines/routing.ts'
import { CallSignal } from '../transport/call-signal.ts'
import { TransportError } from '../transport/transport.ts'
import type { CallOutcome, InFlightCall, Router } from './router.ts'
import type { Span } from './tracing.ts'

/** Why this side ended a call. */
export type AbortCause =
  | 'client_gone'
  | 'first_chunk_timeout'
  | 'total_timeout'
  | 'stream_idle'
  | 'slow_client'
  | 'node_lost'
  | 'shutdown'
  /** The answer is complete; what the node still sends does not matter. */
  | 'complete'

/** A call that failed: what the client would hear, and whether another route may be tried. */
export interface AttemptFailure {
  readonly code: ProblemCode
  readonly failover: boolean
  readonly retryAfterSeconds?: number
}

const timeouts: ReadonlySet<AbortCause> = new Set(['first_chunk_timeout', 'total_timeout', 'stream_idle'])

/** One call to one node: it holds a slot from its making until `release`. */
export class Attempt implements InFlightCall {
  readonly signal = new CallSignal()
  readonly startedMs = performance.now()
  cause: AbortCause | null = null
  span: Span | null = null
  private released = false

  constructor(
    private readonly router: Router,
    readonly route: Route,
    /** Of this call alone: the node hears it and the receipt carries it, so that no two receipts are alike. */
    readonly callId: RequestId,
    private readonly keyId: string,
    private readonly onNodeLost: () => void = () => {},
  ) {
    router.claim(route, this)
  }

  nodeLost(): void {
    this.abort('node_lost')
    this.onNodeLost()
  }

  /** The first cause stands. */
  abort(cause: AbortCause): void {
    if (this.cause !== null || this.released) return
    this.cause = cause
    this.signal.abort()
  }

  release(outcome: CallOutcome): void {
    if (this.released) return
    this.released = true
    // What was answered has ended its span by itself, with what it used.
    if (this.span !== null && outcome.kind !== 'ok') this.span.end(null)
    this.router.release(this.route, this, outcome)
  }

  /** Releases the slot of a call that failed before its answer, by what the transport or this side says. */
  failedBy(error: unknown): AttemptFailure {
    if (this.cause !== null) return this.failedByCause(this.cause)
    const transport = error instanceof TransportError ? error.failure : 'closed'
    const code = transport === 'timeout' ? 'upstream_timeout' : 'upstream_error'
    this.span?.end(code)
    this.release({
      kind: 'failed',
      cause: transport === 'timeout' ? 'timeout' : 'connect',
      transport,
      keyId: this.keyId,
    })
    return { code, failover: true }
  }

  failedByCause(cause: AbortCause): AttemptFailure {
    if (timeouts.has(cause)) {
      const code = cause === 'stream_idle' ? 'stream_idle_timeout' : 'upstream_timeout'
      this.span?.end(code)
      this.release({ kind: 'failed', cause: 'timeout', keyId: this.keyId })
      return { code, failover: cause === 'first_chunk_timeout' }
    }
    const code = cause === 'node_lost' ? cause : 'server_shutdown'
    // A client that left is no failure of the call.
    this.span?.end(cause === 'client_gone' ? null : code)
    this.release({ kind: 'neutral' })
    return { code, failover: cause === 'node_lost' }
  }

  /** By the HTTP status of the node. Its body is never shown: it can name paths, models and addresses of the node. */
  failedByStatus(status: number, retryAfter: string | null): AttemptFailure {
    const failure = statusFailure(status, retryAfter)
    this.span?.end(failure.code)
    if (status >= 500) this.release({ kind: 'failed', cause: 'server_error', keyId: this.keyId })
    else this.release({ kind: 'neutral' })
    return failure
  }

  /** A 200 that carries an error or no completion at all. */
  failedByContent(): AttemptFailure {
    this.span?.end('upstream_error')
    this.release({ kind: 'failed', cause: 'server_error', keyId: this.keyId })
    return { code: 'upstream_error', failover: true }
  }
}

function statusFailure(status: number, retryAfter: string | null): AttemptFailure {
  if (status >= 500) return { code: 'upstream_error', failover: true }
  if (status === 429) {
    const seconds = Number(retryAfter)
    return {
      code: 'capacity_exhausted',
      failover: true,
      retryAfterSeconds: Number.isInteger(seconds) && seconds > 0 ? Math.min(seconds, 120) : 1,
    }
  }
  // The request itself is what the node refuses; another node would refuse it too.
  if (status === 400 || status === 413 || status === 422) return { code: 'invalid_request', failover: false }
  return { code: 'upstream_error', failover: true }
}
