import { brand } from '../../brand.ts'
import { OpenStreams } from './open-streams.ts'
import {
  decodeFrame,
  type Frame,
  type FrameFault,
  goAwayFrame,
  type OpenHead,
  openFrame,
  resetFrame,
  statusFrame,
  streamIdMax,
  windowFrameOf,
} from './tunnel-frames.ts'
import { type StreamCarrier, type StreamSink, TunnelStream } from './tunnel-stream.ts'

/** Streams of one tunnel at a time. */
export const openStreamsMax = 1_024
/** How many bytes the socket may hold that the kernel has not taken. Beyond it streams wait for their turn. */
export const socketBytesMax = 256 * 1024

export const tunnelProtocol = `${brand}-tunnel-v1`
export const pingEveryMs = 10_000
/** A tunnel without any message for this long is dead. */
export const silentMsMax = 30_000

export type TunnelFault =
  | FrameFault
  | 'unknown_stream'
  | 'unexpected_frame'
  | 'window_exceeded'
  /** The socket of this side dropped a message. */
  | 'overflow'
  | 'silent'

export type TunnelEnd = TunnelFault | 'finished' | 'superseded' | 'revoked' | 'stopped' | 'lost'

/** WebSocket close codes; `lost` was never closed. */
export const closeCodes: Readonly<Record<Exclude<TunnelEnd, 'lost'>, number>> = {
  finished: 4000,
  superseded: 4001,
  revoked: 4002,
  silent: 4003,
  overflow: 4004,
  stopped: 4005,
  bad_length: 4010,
  unknown_type: 4011,
  bad_stream_id: 4012,
  bad_payload: 4013,
  unknown_stream: 4014,
  unexpected_frame: 4015,
  window_exceeded: 4016,
}

type StreamFrame = Exclude<Frame, { readonly kind: 'open' | 'status' | 'goAway' }>

/** The WebSocket under a tunnel. */
export interface TunnelSocket {
  /** One binary message; false where it was dropped. */
  send(message: Buffer): boolean
  /** Bytes that the kernel has not taken yet. */
  bufferedBytes(): number
  /** Call `drained` when the socket holds less. */
  awaitDrain(): void
  /** The socket sends everything from `work` to the kernel at once, if it can. */
  together(work: () => void): void
  close(code: number, reason: string): void
}

export interface SessionPort {
  readonly role: 'gateway' | 'node'
  readonly socket: TunnelSocket
  /** A request arrives (the node's end). */
  opened?(stream: TunnelStream, head: OpenHead): StreamSink
  /** One JSON object of the node (the gateway's end). */
  status?(text: string): void
  /** The other end asks to end this tunnel. */
  goAway(): void
  /** Called each time when the last stream has ended. */
  idle(): void
  /** Called once, after every stream has been notified. */
  closed(end: TunnelEnd): void
}

/** The common part of both ends of a tunnel (§22): streams, their windows and their turns. It has no timer. */
export class TunnelSession implements StreamCarrier {
  readonly role: 'gateway' | 'node'
  private readonly streams = new OpenStreams()
  private lastId = 0
  private ended: TunnelEnd | null = null
  private firstInTurn: TunnelStream | null = null
  private lastInTurn: TunnelStream | null = null
  private awaitingDrain = false
  /** True if the gateway opens no more streams. */
  private refusing = false

  constructor(private readonly port: SessionPort) {
    this.role = port.role
  }

  get openStreams(): number {
    return this.streams.size
  }

  /** New streams may be opened; `open` still answers null beyond `openStreamsMax`. */
  get accepting(): boolean {
    return this.ended === null && !this.refusing
  }

  /** A new request (the gateway's end). null: as many as may be are open, or the head is too large for a frame. */
  open(head: OpenHead, sinkOf: (stream: TunnelStream) => StreamSink): TunnelStream | null {
    if (!this.accepting || this.streams.size >= openStreamsMax) return null
    const frame = openFrame(this.lastId + 1, head)
    if (frame === null) return null
    const stream = new TunnelStream(++this.lastId, this)
    // After four billion requests no ids are left. The node dials a new tunnel, and this one ends.
    if (this.lastId === streamIdMax) {
      this.refusing = true
      this.goAway()
    }
    this.streams.add(stream)
    stream.sink = sinkOf(stream)
    this.send(frame)
    return stream
  }

  /** Sends what `work` sends at once: three frames of a request would be three calls of the system, 60 µs each (measured). */
  together(work: () => void): void {
    this.port.socket.together(work)
  }

  /** `text`: one JSON object; false where it is too large for a frame. */
  status(text: string): boolean {
    const frame = statusFrame(text)
    if (frame !== null) this.send(frame)
    return frame !== null
  }

  /** Asks for the end: the gateway that the node dials another tunnel, the node that no more streams are opened. */
  goAway(): void {
    this.send(goAwayFrame())
  }

  close(end: Exclude<TunnelEnd, 'lost'>): void {
    if (this.ended !== null) return
    this.finish(end)
    this.port.socket.close(closeCodes[end], end)
  }

  /** The socket is closed. `reason`: of the WebSocket's close, the other end's word where it is one of ours. */
  lost(reason = ''): void {
    if (this.ended === null) this.finish(Object.hasOwn(closeCodes, reason) ? (reason as TunnelEnd) : 'lost')
  }

  private finish(end: TunnelEnd): void {
    this.ended = end
    this.firstInTurn = null
    this.lastInTurn = null
    for (const stream of this.streams.all()) stream.receivedReset('tunnel_closed')
    this.port.closed(end)
  }

  send(frame: Buffer): void {
    if (this.ended !== null) return
    if (!this.port.socket.send(frame)) this.close('overflow')
  }

  get clear(): boolean {
    return this.firstInTurn === null && this.port.socket.bufferedBytes() <= socketBytesMax
  }

  queue(stream: TunnelStream): void {
    this.enqueue(stream)
    this.pump()
  }

  private enqueue(stream: TunnelStream): void {
    if (stream.queued) return
    stream.queued = true
    if (this.lastInTurn === null) this.firstInTurn = stream
    else this.lastInTurn.nextInTurn = stream
    this.lastInTurn = stream
  }

  private dequeue(): TunnelStream | null {
    const first = this.firstInTurn
    if (first === null) return null
    this.firstInTurn = first.nextInTurn
    if (this.firstInTurn === null) this.lastInTurn = null
    first.nextInTurn = null
    first.queued = false
    return first
  }

  /** Each stream that may send sends one piece in turn, while the socket accepts more. */
  private pump(): void {
    if (this.awaitingDrain) return
    while (this.firstInTurn !== null && this.ended === null) {
      if (this.port.socket.bufferedBytes() > socketBytesMax) {
        this.awaitingDrain = true
        this.port.socket.awaitDrain()
        return
      }
      const stream = this.dequeue()
      if (stream?.takeTurn() === true) this.enqueue(stream)
    }
  }

  drained(): void {
    this.awaitingDrain = false
    this.pump()
  }

  over(stream: TunnelStream): void {
    this.streams.delete(stream)
    if (this.streams.size === 0 && this.ended === null) this.port.idle()
  }

  /** One message of the other end, as received. Text messages are not part of this protocol. */
  receive(message: Buffer | string): void {
    if (this.ended !== null) return
    if (typeof message === 'string') return this.close('unknown_type')
    const frame = decodeFrame(message)
    const fault = frame.kind === 'broken' ? frame.fault : this.accept(frame)
    if (fault !== null) this.close(fault)
  }

  private accept(frame: Frame): TunnelFault | null {
    if (frame.kind === 'open') return this.accepted(frame.id, frame.head)
    if (frame.kind === 'goAway') {
      if (this.role === 'gateway') this.refusing = true
      this.port.goAway()
      return null
    }
    if (frame.kind === 'status') {
      if (this.port.status === undefined) return 'unexpected_frame'
      this.port.status(frame.text)
      return null
    }
    if (frame.id > this.lastId) return 'unknown_stream'
    const stream = this.streams.get(frame.id)
    if (stream !== undefined) return this.onStream(stream, frame)
    // The stream has ended here, and its sender may not know yet, so it gets its credit back.
    if (frame.kind === 'data') this.send(windowFrameOf(frame.id, frame.bytes.length))
    return null
  }

  private accepted(id: number, head: OpenHead): TunnelFault | null {
    if (this.port.opened === undefined) return 'unexpected_frame'
    if (id <= this.lastId) return 'bad_stream_id'
    this.lastId = id
    if (this.streams.size >= openStreamsMax) {
      this.send(resetFrame(id, 'too_many_streams'))
      return null
    }
    const stream = new TunnelStream(id, this)
    this.streams.add(stream)
    stream.sink = this.port.opened(stream, head)
    return null
  }

  private onStream(stream: TunnelStream, frame: StreamFrame): TunnelFault | null {
    switch (frame.kind) {
      case 'data': {
        const taken = stream.receivedBytes(frame.bytes)
        return taken === 'taken' ? null : taken
      }
      case 'head':
        return stream.receivedHead(frame.head) ? null : 'unexpected_frame'
      case 'end':
        return stream.receivedEnd() ? null : 'unexpected_frame'
      case 'window':
        return stream.receivedWindow(frame.bytes) ? null : 'window_exceeded'
      case 'reset':
        stream.receivedReset(frame.code)
        return null
    }
  }
}
