import type { Socket } from 'bun'
import { Body, collectText, decoded } from './body.ts'
import { MalformedResponse, ResponseParser } from './http1-parser.ts'
import { type BodySink, type NodeResponse, TransportError, type TransportFailure } from './transport.ts'

const failureByCode: Readonly<Record<string, TransportFailure>> = {
  ECONNREFUSED: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'timeout',
}
const tlsCode = /CERT|SSL|TLS|SIGNATURE|ISSUER|EPROTO/

export function failureOf(error: unknown): TransportFailure {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'closed'
  return failureByCode[code] ?? (tlsCode.test(code) ? 'tls' : 'closed')
}

export interface Endpoint {
  readonly hostname: string
  readonly port: number
  readonly tls: boolean
  readonly connectTimeoutMs: number
}

interface Exchange {
  readonly resolve: (response: NodeResponse) => void
  readonly reject: (error: TransportError) => void
  body: BodySink | null
}

/**
 * One keep-alive connection that carries one request at a time. Bun's own fetch costs more than all of a gateway's work
 * beside it and cannot bound the connecting alone (docs/decisions/0002), hence HTTP/1.1 straight on Bun's sockets.
 */
export class Http1Connection {
  /** `performance.now()` of the last answer's end. */
  idleSinceMs = 0
  /** Answers this connection has given. */
  answers = 0
  private socket: Socket | null = null
  private exchange: Exchange | null = null
  private unsent: Uint8Array | null = null
  private readonly parser = new ResponseParser({
    head: (status, headers) => this.head(status, headers),
    body: (bytes) => this.exchange?.body?.bytes(bytes),
    end: (reusable) => this.end(reusable),
  })
  private dead = false

  /** `released`: the connection has answered and may be used again; `closed`: it never will be. */
  constructor(
    private readonly released: (connection: Http1Connection) => void,
    private readonly closed: (connection: Http1Connection) => void,
  ) {}

  get open(): boolean {
    return !this.dead
  }

  async connect(endpoint: Endpoint, signal: AbortSignal): Promise<void> {
    const { hostname, port } = endpoint
    let fail: (failure: TransportFailure) => void = () => {}
    let ready: () => void = () => {}
    const opened = new Promise<void>((resolve, reject) => {
      ready = resolve
      fail = (failure) => reject(new TransportError(failure))
    })
    const timer = setTimeout(() => fail('timeout'), endpoint.connectTimeoutMs)
    const onAbort = () => fail('aborted')
    signal.addEventListener('abort', onAbort, { once: true })
    Bun.connect({
      hostname,
      port,
      ...(endpoint.tls ? { tls: { serverName: hostname, rejectUnauthorized: true } } : {}),
      socket: {
        binaryType: 'uint8array',
        open: (socket) => {
          this.socket = socket
          if (this.dead) socket.terminate()
          else if (!endpoint.tls) ready()
        },
        handshake: (_socket, success, error) => (success && error === null ? ready() : fail('tls')),
        data: (_socket, bytes) => this.data(bytes),
        drain: () => this.drain(),
        end: () => this.lost('closed'),
        close: () => {
          fail('closed')
          this.lost('closed')
        },
        error: (_socket, error) => {
          fail(failureOf(error))
          this.lost(failureOf(error))
        },
      },
    }).catch((error: unknown) => fail(failureOf(error)))
    try {
      await opened
    } catch (error) {
      this.destroy()
      throw error
    } finally {
      clearTimeout(timer)
      signal.removeEventListener('abort', onAbort)
    }
  }

  /** `request`: head and body as they go on the wire. */
  send(request: string, signal: AbortSignal): Promise<NodeResponse> {
    return new Promise((resolve, reject) => {
      const exchange: Exchange = { resolve, reject, body: null }
      this.exchange = exchange
      // Never taken off again: the signal lives no longer than its call, and taking it off costs more than it.
      signal.addEventListener('abort', () => {
        if (this.exchange !== exchange) return
        this.lost('aborted')
        this.destroy()
      })
      if (this.dead || signal.aborted) return this.lost(signal.aborted ? 'aborted' : 'closed')
      this.write(request)
    })
  }

  private write(request: string): void {
    const sent = this.socket?.write(request) ?? -1
    if (sent < 0) return this.lost('closed')
    if (sent < Buffer.byteLength(request)) this.unsent = Buffer.from(request).subarray(sent)
  }

  private drain(): void {
    if (this.unsent === null || this.socket === null) return
    const sent = this.socket.write(this.unsent)
    if (sent < 0) return this.lost('closed')
    this.unsent = sent >= this.unsent.length ? null : this.unsent.subarray(sent)
  }

  private data(bytes: Uint8Array): void {
    if (this.exchange === null) return this.destroy()
    try {
      this.parser.push(bytes)
    } catch (error) {
      if (!(error instanceof MalformedResponse)) throw error
      this.lost('malformed')
      this.destroy()
    }
  }

  private head(status: number, headers: ReadonlyMap<string, string>): void {
    const { exchange } = this
    if (exchange === null) return
    const body = new Body({ pause: () => this.socket?.pause(), resume: () => this.socket?.resume() })
    const coding = headers.get('content-encoding')?.toLowerCase() ?? 'identity'
    const sink = coding === 'identity' ? body : decoded(coding, body)
    if (sink === null) {
      this.lost('malformed')
      return this.destroy()
    }
    exchange.body = sink
    const discard = () => this.destroy()
    exchange.resolve({
      status,
      headers: { get: (name) => headers.get(name) ?? null },
      read: (reader) => body.read(reader),
      flow: body.flow,
      text: (bytesMax) => collectText((reader) => body.read(reader), bytesMax, discard),
      discard,
    })
  }

  private end(reusable: boolean): void {
    const { exchange } = this
    this.exchange = null
    this.answers++
    if (reusable && this.unsent === null && !this.dead) {
      this.idleSinceMs = performance.now()
      this.released(this)
    } else this.destroy()
    exchange?.body?.ended()
  }

  /** The node, or this side, ended the connection: whoever waits hears of it, once. */
  private lost(failure: TransportFailure): void {
    if (failure === 'closed' && this.parser.close()) return
    const { exchange } = this
    this.exchange = null
    if (failure !== 'aborted') this.destroy()
    if (exchange === null) return
    const error = new TransportError(failure)
    if (exchange.body === null) exchange.reject(error)
    else exchange.body.failed(error)
  }

  destroy(): void {
    if (this.dead) return
    this.dead = true
    this.socket?.terminate()
    this.closed(this)
    this.lost('aborted')
  }
}
