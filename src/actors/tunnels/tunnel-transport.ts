import type { AnswerHead } from '../../protocol/tunnel/tunnel-frames.ts'
import { openStreamsMax, type TunnelSession } from '../../protocol/tunnel/tunnel-session.ts'
import type { StreamSink, TunnelStream } from '../../protocol/tunnel/tunnel-stream.ts'
import { Body, collectText, decoded } from '../../transport/body.ts'
import {
  type BodyFlow,
  type BodySink,
  type NodeRequest,
  type NodeResponse,
  type NodeTransport,
  TransportError,
  type TransportFailure,
  wholeBody,
} from '../../transport/transport.ts'

/**
 * Requests over the tunnel that the node has dialled (§22). `session`: asked for each request, so that the
 * newest tunnel takes it; null: none, the request fails as `closed`.
 */
export function createTunnelTransport(session: () => TunnelSession | null): NodeTransport {
  let closed = false
  return {
    fetch: async (path, init) => {
      const tunnel = closed ? null : session()
      if (tunnel === null) throw new TransportError('closed')
      if (init.signal.aborted) throw new TransportError('aborted')
      if (tunnel.openStreams >= openStreamsMax) return new FullAnswer()
      return send(tunnel, path, init)
    },
    close: () => {
      closed = true
    },
  }
}

function send(tunnel: TunnelSession, path: string, init: NodeRequest): Promise<NodeResponse> {
  const { method, headers = {}, body, signal } = init
  return new Promise((resolve, reject) => {
    const whole = body === undefined ? '' : wholeBody(body)
    const bytes = whole.length === 0 ? null : typeof whole === 'string' ? Buffer.from(whole) : whole
    let call: TunnelCall | null = null
    tunnel.together(() => {
      const stream = tunnel.open({ method, path, headers: lowerCase(headers) }, (opened) => {
        call = new TunnelCall(opened, resolve, reject)
        return call
      })
      if (bytes !== null) stream?.write(bytes)
      stream?.end()
    })
    const made = call as TunnelCall | null
    if (made === null) return reject(new TransportError('closed'))
    // The listener is never removed, because the signal lives no longer than its call.
    signal.addEventListener('abort', () => made.cancel())
  })
}

function lowerCase(headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> {
  const lower: Record<string, string> = {}
  for (const name in headers) lower[name.toLowerCase()] = headers[name] ?? ''
  return lower
}

/** One request on its stream, with its answer. */
class TunnelCall implements StreamSink, NodeResponse, BodyFlow {
  status = 0
  headers: NodeResponse['headers'] = noHeaders
  private sink: BodySink | null = null
  private answer: Body | null = null

  constructor(
    private readonly stream: TunnelStream,
    private readonly resolve: (response: NodeResponse) => void,
    private readonly reject: (error: TransportError) => void,
  ) {}

  get flow(): BodyFlow {
    return this.answer?.flow ?? this
  }

  head({ status, headers }: AnswerHead): void {
    this.status = status
    this.headers = new AnswerHeaders(headers)
    const body = new Body(this)
    const coding = this.headers.get('content-encoding')?.toLowerCase() ?? 'identity'
    const sink = coding === 'identity' ? body : decoded(coding, body)
    if (sink === null) {
      this.stream.reset('cancelled')
      return this.reject(new TransportError('malformed'))
    }
    this.answer = body
    this.sink = sink
    this.resolve(this)
  }

  bytes(chunk: Buffer): void {
    this.sink?.bytes(chunk)
  }

  ended(): void {
    this.sink?.ended()
  }

  reset(): void {
    this.failed('closed')
  }

  /** The body of a request is handed over as a whole, and the stream sends it bit by bit. */
  writable(): void {}

  pause(): void {
    this.stream.pause()
  }

  resume(): void {
    this.stream.resume()
  }

  cancel(): void {
    if (this.stream.over) return
    this.stream.reset('cancelled')
    this.failed('aborted')
  }

  private failed(failure: TransportFailure): void {
    const error = new TransportError(failure)
    if (this.sink === null) this.reject(error)
    else this.sink.failed(error)
  }

  read(sink: BodySink): void {
    this.answer?.read(sink)
  }

  text(bytesMax: number): Promise<string> {
    return collectText(
      (sink) => this.read(sink),
      bytesMax,
      () => this.discard(),
    )
  }

  discard(): void {
    this.cancel()
  }
}

class AnswerHeaders {
  constructor(private readonly values: Readonly<Record<string, string>>) {}
  get(name: string): string | null {
    const key = name.toLowerCase()
    return Object.hasOwn(this.values, key) ? (this.values[key] ?? null) : null
  }
}

const noHeaders = new AnswerHeaders({})

/** The tunnel has the largest allowed number of streams. This is what a node at its limit would answer. */
class FullAnswer implements NodeResponse {
  readonly status = 429
  readonly headers = new AnswerHeaders({ 'retry-after': '1' })
  readonly flow: BodyFlow = { pause: () => {}, resume: () => {} }
  read(sink: BodySink): void {
    sink.ended()
  }
  async text(): Promise<string> {
    return ''
  }
  discard(): void {}
}
