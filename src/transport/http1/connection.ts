import type { Socket, SocketHandler } from 'bun'
import { descriptors } from '../../host/descriptors.ts'
import { Answer } from '../answer.ts'
import { decoded } from '../body.ts'
import type { CancelSignal } from '../call-signal.ts'
import { type BodyFlow, handPart, type NodeResponse, TransportError, type TransportFailure } from '../transport.ts'
import type { Call } from './call.ts'
import { OutgoingStream } from './outgoing-stream.ts'
import { encodeRequest } from './request-bytes.ts'
import { type HeadReader, MalformedResponse } from './response-head.ts'
import { type AfterAnswer, ResponseParser, type ResponseSink } from './response-parser.ts'
import { failureOf } from './socket-failure.ts'
import { countTurn, currentTurn, holdUntilTurnEnd } from './turns.ts'

const firstErrorStatus = 400

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

export interface ConnectionPort {
  /** Of all connections to the node. */
  readonly heads: HeadReader
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
  /** Among those of its transport. */
  transportPlace = -1
  private socket: Socket<Http1Connection> | null = null
  /** Sent, or about to be, and not answered to its end. */
  private call: Call | null = null
  /** `call` waits for the end of a turn. */
  private waiting = false
  private unsent: Uint8Array | null = null
  /** A request whose body still comes. */
  private outgoing: OutgoingStream | null = null
  /** The turn in which its last answer ended. */
  private answeredInTurn = 0
  /** The answer began before its request was sent whole. */
  private early = false
  private readonly parser: ResponseParser
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
  ) {
    this.parser = new ResponseParser(this, port.heads)
  }

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

  carry(call: Call): void {
    this.call = call
    call.connection = this
    call.begin(this.answers > 0)
    if (call.signal.aborted) return this.abandon(call)
    if (this.dead) return this.lost('closed')
    if (this.answers === 0) return this.write(call)
    this.waiting = true
    holdUntilTurnEnd(this)
  }

  /** This answer is no longer waited for. */
  abandon(call: Call): void {
    if (this.call !== call) return
    this.lost('aborted')
    this.destroy()
  }

  /** At the end of a turn: goes out unless the last answer ended in this very one, and more may stand behind it. */
  writeHeld(): void {
    const { call } = this
    if (!this.waiting || this.dead || call === null) return
    if (this.answeredInTurn >= currentTurn() - 1) return holdUntilTurnEnd(this)
    this.waiting = false
    this.write(call)
  }

  private write(call: Call): void {
    const { head, body, stream } = call
    if (stream !== undefined) return this.writeStream(call, new OutgoingStream(stream, (bytes) => this.send(bytes)))
    const { bytes, start, end } = encodeRequest(head, body)
    const sent = this.socket?.write(bytes, start, end - start) ?? -1
    if (sent < 0) return this.lost('closed')
    // A copy: the buffer is used again.
    if (start + sent < end) this.unsent = Buffer.from(bytes.subarray(start + sent, end))
  }

  private writeStream(call: Call, outgoing: OutgoingStream): void {
    this.outgoing = outgoing
    outgoing.run(call.head).then(
      () => {
        this.outgoing = null
      },
      () => this.abandon(call),
    )
  }

  /** True when all of it is on its way. */
  private send(bytes: Uint8Array): boolean {
    const sent = this.socket?.write(bytes) ?? -1
    if (sent < 0) this.lost('closed')
    else if (sent < bytes.length) this.unsent = bytes.subarray(sent)
    return sent >= bytes.length
  }

  private drain(): void {
    if (this.unsent === null || this.socket === null) return
    const sent = this.socket.write(this.unsent)
    if (sent < 0) return this.lost('closed')
    this.unsent = sent >= this.unsent.length ? null : this.unsent.subarray(sent)
    if (this.unsent === null) this.outgoing?.drained()
  }

  private data(bytes: Buffer): void {
    const sent = !this.waiting && this.unsent === null && this.outgoing === null
    if (this.call === null || (!sent && this.answers > 0)) return this.desynchronised()
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

  head(status: number, headers: NodeResponse['headers']): void {
    const { call } = this
    if (call === null) return
    // A node may refuse a large request before it has read it all; it cannot have done what half a request asks.
    if (this.early && status < firstErrorStatus) return this.malformed()
    const answer = new Answer(this, status, headers)
    const coding = headers.get('content-encoding')?.toLowerCase() ?? 'identity'
    const sink = coding === 'identity' ? answer : decoded(coding, answer)
    if (sink === null) return this.malformed()
    call.answered(answer, sink)
  }

  part(input: Buffer, from: number, to: number): void {
    const sink = this.call?.sink
    if (sink != null) handPart(sink, input, from, to)
  }

  pause(): void {
    this.socket?.pause()
  }

  resume(): void {
    this.socket?.resume()
  }

  end(next: AfterAnswer): void {
    const { call } = this
    this.call = null
    this.answers++
    this.answeredInTurn = currentTurn()
    if (next === 'excess') this.port.desynchronised()
    if (next === 'reusable' && this.unsent === null && !this.early && !this.dead) {
      countTurn()
      this.idleSinceMs = performance.now()
      this.port.released(this)
    } else this.destroy()
    call?.sink?.ended()
  }

  /** The reader of that answer wants no more of it. One that has ended is the connection's past. */
  giveUp(ordinal: number): void {
    if (this.answers === ordinal) this.destroy()
  }

  /** The node, or this side, ended the connection: the waiting request is rejected, once. */
  private lost(failure: TransportFailure): void {
    if (failure === 'closed' && this.parser.close()) return
    const { call } = this
    this.call = null
    if (failure !== 'aborted') this.destroy()
    call?.failed(failure)
  }

  destroy(): void {
    if (this.dead) return
    this.dead = true
    this.waiting = false
    this.outgoing?.stop()
    this.socket?.terminate()
    this.port.closed(this)
    this.lost('aborted')
  }
}
