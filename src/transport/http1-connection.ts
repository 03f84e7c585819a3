import type { Socket, SocketHandler } from 'bun'
import { descriptors } from '../host/descriptors.ts'
import { Body, collectText, decoded } from './body.ts'
import type { CancelSignal } from './call-signal.ts'
import { type AfterAnswer, MalformedResponse, ResponseParser, type ResponseSink } from './http1-parser.ts'
import { encodeRequest } from './request-bytes.ts'
import {
  type BodyFlow,
  type BodySink,
  type NodeResponse,
  type RequestBody,
  TransportError,
  type TransportFailure,
} from './transport.ts'

const failureByCode: Readonly<Record<string, TransportFailure>> = {
  ECONNREFUSED: 'refused',
  // A Unix socket that is gone.
  ENOENT: 'refused',
  EHOSTUNREACH: 'refused',
  ENETUNREACH: 'refused',
  EHOSTDOWN: 'refused',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  ETIMEDOUT: 'timeout',
}
const firstErrorStatus = 400
const tlsCode = /CERT|SSL|TLS|SIGNATURE|ISSUER|EPROTO/

export function failureOf(error: unknown): TransportFailure {
  const code = (error as { code?: unknown } | null)?.code
  if (typeof code !== 'string') return 'closed'
  // Bun says so of a socket that it could not even make (seen on 1.4.5).
  if (code === 'ECONNREFUSED' && descriptors.exhausted()) return 'exhausted'
  return failureByCode[code] ?? (tlsCode.test(code) ? 'tls' : 'closed')
}

export interface Endpoint {
  /** A name or an address, without brackets. */
  readonly hostname: string
  readonly port: number
  readonly tls: boolean
  /** Whose certificate is expected; default `hostname`. */
  readonly serverName?: string
  /** A Unix socket, in the place of name and port. */
  readonly socketPath?: string
  readonly connectTimeoutMs: number
}

interface Exchange {
  readonly resolve: (response: NodeResponse) => void
  readonly reject: (error: TransportError) => void
  body: BodySink | null
}

/**
 * Turns of the event loop, counted while a connection waits for one. Requests on kept connections go out together at
 * the end of a turn: by then all that was readable has been read, so a node's bytes without a request are found before
 * the request is written that they would seem to answer. It also wakes a node on this machine once a turn and not for
 * each request (10 µs a request of CPU, measured).
 */
let turn = 0
let turnEndDue = false
let held: Http1Connection[] = []

function awaitTurnEnd(): void {
  if (turnEndDue) return
  turnEndDue = true
  setImmediate(endTurn)
}

function endTurn(): void {
  turnEndDue = false
  turn++
  if (held.length === 0) return
  const batch = held
  held = []
  for (const connection of batch) connection.writeHeld()
}

/** What thousands of open streams hold each: methods and no closures. */
class Answer implements NodeResponse {
  readonly headers: { get(name: string): string | null }
  private readonly ordinal: number

  constructor(
    private readonly connection: Http1Connection,
    private readonly body: Body,
    readonly status: number,
    headers: ReadonlyMap<string, string>,
  ) {
    this.headers = new AnswerHeaders(headers)
    this.ordinal = connection.answers
  }

  get flow(): BodyFlow {
    return this.body.flow
  }

  read(sink: BodySink): void {
    this.body.read(sink)
  }

  text(bytesMax: number): Promise<string> {
    return collectText(
      (sink) => this.body.read(sink),
      bytesMax,
      () => this.discard(),
    )
  }

  discard(): void {
    this.body.discard()
    this.connection.giveUp(this.ordinal)
  }
}

class AnswerHeaders {
  constructor(private readonly values: ReadonlyMap<string, string>) {}
  get(name: string): string | null {
    return this.values.get(name) ?? null
  }
}

export interface ConnectionPort {
  /** It has answered and may be used again. */
  released(connection: Http1Connection): void
  /** It never will be. */
  closed(connection: Http1Connection): void
  /** The node sent bytes that answer no request. `closed` follows. */
  desynchronised(): void
}

/**
 * One keep-alive connection that carries one request at a time. Bun's own fetch costs more than all of a gateway's work
 * beside it and cannot bound the connecting alone (docs/decisions/0002), hence HTTP/1.1 straight on Bun's sockets.
 */
export class Http1Connection implements ResponseSink, BodyFlow {
  /** `performance.now()` of the last answer's end. */
  idleSinceMs = 0
  /** Answers this connection has given. */
  answers = 0
  private socket: Socket<Http1Connection> | null = null
  private exchange: Exchange | null = null
  private unsent: Uint8Array | null = null
  /** The turn in which its last answer ended. */
  private answeredInTurn = 0
  /** The answer began before its request was sent whole. */
  private early = false
  /** A request for the end of a turn. */
  private waiting: { readonly head: string; readonly body: RequestBody | undefined } | null = null
  private readonly parser = new ResponseParser(this)
  private dead = false
  /** While it connects: null for success; the first word counts. */
  private connected: ((failure: TransportFailure | null) => void) | null = null

  /** One set for all connections: closures of its own would stay with each of thousands of open streams. */
  private static readonly plain: SocketHandler<Http1Connection> = {
    open: (socket) => socket.data.opened(socket, true),
    data: (socket, bytes) => socket.data.data(bytes),
    drain: (socket) => socket.data.drain(),
    end: (socket) => socket.data.lost('closed'),
    close: (socket) => socket.data.broken('closed'),
    error: (socket, error) => socket.data.broken(failureOf(error)),
  }
  private static readonly secure: SocketHandler<Http1Connection> = {
    ...Http1Connection.plain,
    open: (socket) => socket.data.opened(socket, false),
    handshake: (socket, success, error) => socket.data.connected?.(success && error === null ? null : 'tls'),
  }

  /** `isolationKey`: whose requests it carries. */
  constructor(
    private readonly port: ConnectionPort,
    readonly isolationKey: string,
  ) {}

  get open(): boolean {
    return !this.dead
  }

  connect(endpoint: Endpoint, signal: CancelSignal): Promise<void> {
    const { hostname, port, tls, connectTimeoutMs, serverName = hostname, socketPath } = endpoint
    return new Promise((resolve, reject) => {
      const onAbort = () => this.connected?.('aborted')
      const timer = setTimeout(() => this.connected?.('timeout'), connectTimeoutMs)
      this.connected = (failure) => {
        this.connected = null
        clearTimeout(timer)
        signal.removeEventListener('abort', onAbort)
        if (failure === null) return resolve()
        this.destroy()
        reject(new TransportError(failure))
      }
      signal.addEventListener('abort', onAbort)
      descriptors.lend()
      const options = {
        data: this,
        ...(tls ? { tls: { serverName, rejectUnauthorized: true } } : {}),
        socket: tls ? Http1Connection.secure : Http1Connection.plain,
      }
      const connecting =
        socketPath === undefined
          ? Bun.connect<Http1Connection>({ ...options, hostname, port })
          : Bun.connect<Http1Connection>({ ...options, unix: socketPath })
      connecting.catch((error: unknown) => this.connected?.(failureOf(error)))
    })
  }

  private opened(socket: Socket<Http1Connection>, ready: boolean): void {
    this.socket = socket
    if (this.dead) socket.terminate()
    else if (ready) this.connected?.(null)
  }

  private broken(failure: TransportFailure): void {
    this.connected?.(failure)
    this.lost(failure)
  }

  /** `head`: request line and headers without the length of the body. */
  send(head: string, body: RequestBody | undefined, signal: CancelSignal): Promise<NodeResponse> {
    return new Promise((resolve, reject) => {
      const exchange: Exchange = { resolve, reject, body: null }
      this.exchange = exchange
      // Never taken off again: the signal lives no longer than its call, and taking it off costs more than it.
      signal.addEventListener('abort', this.aborterOf(exchange))
      if (this.dead || signal.aborted) return this.lost(signal.aborted ? 'aborted' : 'closed')
      if (this.answers === 0) return this.write(head, body)
      this.waiting = { head, body }
      held.push(this)
      awaitTurnEnd()
    })
  }

  /** Made here and not where the request is at hand: a closure there would keep its text while the answer flows. */
  private aborterOf(exchange: Exchange): () => void {
    return () => {
      if (this.exchange !== exchange) return
      this.lost('aborted')
      this.destroy()
    }
  }

  /** At the end of a turn: goes out unless the last answer ended in this very one, and more may stand behind it. */
  writeHeld(): void {
    const { waiting } = this
    if (waiting === null || this.dead) return
    if (this.answeredInTurn >= turn - 1) {
      held.push(this)
      return awaitTurnEnd()
    }
    this.waiting = null
    this.write(waiting.head, waiting.body)
  }

  private write(head: string, body: RequestBody | undefined): void {
    const { bytes, start, end } = encodeRequest(head, body)
    const sent = this.socket?.write(bytes, start, end - start) ?? -1
    if (sent < 0) return this.lost('closed')
    // A copy: the buffer is used again.
    if (start + sent < end) this.unsent = Buffer.from(bytes.subarray(start + sent, end))
  }

  private drain(): void {
    if (this.unsent === null || this.socket === null) return
    const sent = this.socket.write(this.unsent)
    if (sent < 0) return this.lost('closed')
    this.unsent = sent >= this.unsent.length ? null : this.unsent.subarray(sent)
  }

  private data(bytes: Buffer): void {
    const sent = this.waiting === null && this.unsent === null
    if (this.exchange === null || (!sent && this.answers > 0)) return this.desynchronised()
    if (!sent) this.early = true
    try {
      this.parser.push(bytes)
    } catch (error) {
      if (!(error instanceof MalformedResponse)) throw error
      this.malformed()
    }
  }

  private malformed(): void {
    this.lost('malformed')
    this.destroy()
  }

  /** What these bytes are is unknown; a request that waits to be written may go over another connection. */
  private desynchronised(): void {
    this.port.desynchronised()
    this.lost('closed')
    this.destroy()
  }

  head(status: number, headers: ReadonlyMap<string, string>): void {
    const { exchange } = this
    if (exchange === null) return
    // A node may refuse a large request before it has read it all; it cannot have done what half a request asks.
    if (this.early && status < firstErrorStatus) return this.malformed()
    const body = new Body(this)
    const coding = headers.get('content-encoding')?.toLowerCase() ?? 'identity'
    const sink = coding === 'identity' ? body : decoded(coding, body)
    if (sink === null) return this.malformed()
    exchange.body = sink
    exchange.resolve(new Answer(this, body, status, headers))
  }

  body(bytes: Buffer): void {
    this.exchange?.body?.bytes(bytes)
  }

  pause(): void {
    this.socket?.pause()
  }

  resume(): void {
    this.socket?.resume()
  }

  end(next: AfterAnswer): void {
    const { exchange } = this
    this.exchange = null
    this.answers++
    this.answeredInTurn = turn
    if (next === 'excess') this.port.desynchronised()
    if (next === 'reusable' && this.unsent === null && !this.early && !this.dead) {
      awaitTurnEnd()
      this.idleSinceMs = performance.now()
      this.port.released(this)
    } else this.destroy()
    exchange?.body?.ended()
  }

  /** The reader of that answer wants no more of it. One that has ended is the connection's past. */
  giveUp(ordinal: number): void {
    if (this.answers === ordinal) this.destroy()
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
    this.waiting = null
    this.socket?.terminate()
    this.port.closed(this)
    this.lost('aborted')
  }
}
