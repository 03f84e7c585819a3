import type { CancelSignal } from '../call-signal.ts'
import {
  type AnswerReceiver,
  type BodySink,
  type BodyStream,
  type NodeRequest,
  type NodeResponse,
  type RequestBody,
  TransportError,
  type TransportFailure,
} from '../transport.ts'

/** How soon a request hears that its kept connection had been closed: a round trip, generously. */
const staleNoticeMs = 500

/** Of requests that name none: polls, which carry nothing of anybody. */
const noIsolationKey = ''

/** The connection of a call. */
interface CallCarrier {
  abandon(call: Call): void
}

export interface CallPort {
  /** Carries it again, over a fresh connection. */
  again(call: Call): void
}

/**
 * A request under way and its waiting caller. It is itself the listener for an abort: with thousands of open streams
 * each closure would be there thousands of times.
 */
export class Call {
  /** That carries it now. */
  connection: CallCarrier | null = null
  /** Where the bytes of the answer go, once it has begun. */
  sink: BodySink | null = null
  body: RequestBody | undefined
  readonly stream: BodyStream | undefined
  readonly signal: CancelSignal
  /** Whose connections may carry it. */
  readonly isolationKey: string
  /** Its connection carries nothing else. */
  readonly once: boolean
  private sentMs = 0
  private kept = false

  constructor(
    private readonly port: CallPort,
    /** Request line and headers without the length of the body. */
    public head: string,
    request: NodeRequest,
    private readonly receiver: AnswerReceiver,
  ) {
    this.body = request.body
    this.stream = request.stream
    this.signal = request.signal
    this.isolationKey = request.isolationKey ?? noIsolationKey
    this.once = request.once === true
    // Never taken off again: the signal lives no longer than its call, and taking it off costs more than it.
    this.signal.addEventListener('abort', this)
  }

  /** `kept`: the connection has answered before, and may have been closed meanwhile. */
  begin(kept: boolean): void {
    this.kept = kept
    if (kept) this.sentMs = performance.now()
  }

  answered(response: NodeResponse, sink: BodySink): void {
    this.sink = sink
    // An answer may flow for minutes: the prompt need not stay for it.
    this.head = ''
    this.body = undefined
    this.receiver.answered(response)
  }

  failed(failure: TransportFailure): void {
    if (this.sink !== null) return this.sink.failed(new TransportError(failure))
    // A kept connection that closes at once and without a byte was closed before the request came: a fresh one may
    // carry it. One that closes later had the request: it is not sent twice.
    if (failure === 'closed' && this.kept && performance.now() - this.sentMs <= staleNoticeMs) {
      return this.port.again(this)
    }
    this.receiver.refused(new TransportError(failure))
  }

  /** No connection could be made. */
  refused(error: unknown): void {
    this.receiver.refused(error)
  }

  /** The signal aborts. */
  handleEvent(): void {
    this.connection?.abandon(this)
  }
}
