import {
  type AnswerHead,
  dataFrame,
  endFrame,
  headFrame,
  type ResetCode,
  resetFrame,
  windowBytes,
  windowFrameOf,
} from './tunnel-frames.ts'

/** How many bytes a stream sends before the next one has its turn. */
const turnBytesMax = 16 * 1024
/** Credit is returned in pieces of at least this size, so that small chunks do not cost a frame each. */
const creditPieceBytes = windowBytes / 2

/** A stream's events for its reader. Exactly one of `ended` (gateway: the answer is whole) and `reset` comes last. */
export interface StreamSink {
  /** The answer begins; never called on the node's end. */
  head(head: AnswerHead): void
  bytes(chunk: Buffer): void
  /** All bytes of the other side have come. */
  ended(): void
  /**
   * The other side or the end of the tunnel (`tunnel_closed`) cut the stream. It is not called after this side's own
   * `reset`.
   */
  reset(code: string): void
  /** Called after a `write` that returned false, when the next one may follow. */
  writable(): void
}

/** What a stream needs of the tunnel that carries it. */
export interface StreamCarrier {
  readonly role: 'gateway' | 'node'
  send(frame: Buffer): void
  /** True if the socket accepts more and no other stream waits for its turn. */
  readonly clear: boolean
  /** The stream has bytes and credit and waits for its turn. */
  queue(stream: TunnelStream): void
  over(stream: TunnelStream): void
}

/**
 * One request and its answer. Each way has a window of its own: what a slow reader has not taken stays with its sender,
 * so that it takes no room from other streams. No timer and no promise of its own.
 *
 * What it sends (state × event → state):
 *
 * | state     | `write`                     | `end`     | `takeTurn` of the last bytes | `reset`, either side |
 * | --------- | --------------------------- | --------- | ---------------------------- | -------------------- |
 * | `open`    | `open`; too much: `pending` | `ended` ¹ | –                            | `over`               |
 * | `pending` | throws                      | `closing` | `open`                       | `over`               |
 * | `closing` | throws                      | `closing` | `ended` ¹                    | `over`               |
 * | `ended`   | throws                      | `ended`   | –                            | `over`               |
 *
 * What it receives (– is a fault that closes the tunnel); the gateway's end begins `headless`, the node's `open`:
 *
 * | state      | `receivedHead` | `receivedBytes` | `receivedEnd` | `receivedReset` |
 * | ---------- | -------------- | --------------- | ------------- | --------------- |
 * | `headless` | `open`         | –               | –             | `over`          |
 * | `open`     | –              | `open`          | `ended` ²     | `over`          |
 * | `ended`    | –              | –               | –             | `over`          |
 *
 * ¹ On the node's end: `over`, the answer is whole. ² On the gateway's end: `over`. From `over` nothing leads away, and what still
 * comes is discarded by the session.
 */
export class TunnelStream {
  /** True while the stream is in the queue of turns. */
  queued = false
  nextInTurn: TunnelStream | null = null
  /** Among the open streams of its tunnel. */
  nextOpen: TunnelStream | null = null
  /** True if the stream has ended here. Later messages are discarded. */
  over = false
  private pending: Uint8Array | null = null
  private pendingAt = 0
  private sendCredit = windowBytes
  /** True inside of `write`, whose result already says what `writable` would say. */
  private writing = false
  private ending = false
  private headSeen = false
  private remoteEnded = false
  private receiveCredit = windowBytes
  /** The bytes that the reader has taken and whose credit was not returned yet. */
  private owed = 0
  private paused = false
  sink: StreamSink | null = null

  constructor(
    readonly id: number,
    private readonly carrier: StreamCarrier,
  ) {}

  /** Returns false if the head is too large for a frame. The stream is then reset. */
  head(head: AnswerHead): boolean {
    if (this.over) return true
    const frame = headFrame(this.id, head)
    if (frame !== null) this.carrier.send(frame)
    else this.reset('failed')
    return frame !== null
  }

  /** Only one write at a time. If it returns false, wait for `writable`, and keep the bytes unchanged until then. */
  write(bytes: Uint8Array): boolean {
    if (this.over || bytes.length === 0) return true
    if (this.pending !== null || this.ending) throw new Error('tunnel stream: written before it was writable')
    if (bytes.length <= turnBytesMax && bytes.length <= this.sendCredit && this.carrier.clear) {
      this.sendCredit -= bytes.length
      this.carrier.send(dataFrame(this.id, bytes))
      return true
    }
    this.pending = bytes
    this.pendingAt = 0
    this.writing = true
    if (this.sendCredit > 0) this.carrier.queue(this)
    this.writing = false
    return this.pending === null
  }

  /** Ends the stream after everything that was written. On the node's end the stream is then over. */
  end(): void {
    if (this.over || this.ending) return
    this.ending = true
    if (this.pending === null) this.sendEnd()
  }

  private sendEnd(): void {
    this.carrier.send(endFrame(this.id))
    if (this.carrier.role === 'node') this.finish()
  }

  /** Sends one piece. Returns true if there is more to send, and credit for it. */
  takeTurn(): boolean {
    const { pending, pendingAt } = this
    if (this.over || pending === null || this.sendCredit === 0) return false
    const until = Math.min(pending.length, pendingAt + Math.min(turnBytesMax, this.sendCredit))
    this.sendCredit -= until - pendingAt
    this.pendingAt = until
    this.carrier.send(dataFrame(this.id, pending.subarray(pendingAt, until)))
    if (this.over) return false
    if (until < pending.length) return this.sendCredit > 0
    this.pending = null
    if (this.ending) this.sendEnd()
    else if (!this.writing) this.sink?.writable()
    return false
  }

  /** This end gives the stream up; the other hears why. */
  reset(code: ResetCode): void {
    if (this.over) return
    this.carrier.send(resetFrame(this.id, code))
    this.finish()
  }

  /** Withholds credit, so that the sender sends at most one more window. */
  pause(): void {
    this.paused = true
  }

  resume(): void {
    this.paused = false
    this.giveBack()
  }

  private giveBack(): void {
    if (this.owed < creditPieceBytes || this.paused || this.over || this.remoteEnded) return
    const bytes = this.owed
    this.owed = 0
    this.receiveCredit += bytes
    this.carrier.send(windowFrameOf(this.id, bytes))
  }

  /** Any result except `taken` closes the tunnel. */
  receivedBytes(chunk: Buffer): 'taken' | 'window_exceeded' | 'unexpected_frame' {
    if (this.remoteEnded || (this.carrier.role === 'gateway' && !this.headSeen)) return 'unexpected_frame'
    if (chunk.length > this.receiveCredit) return 'window_exceeded'
    this.receiveCredit -= chunk.length
    this.owed += chunk.length
    this.sink?.bytes(chunk)
    this.giveBack()
    return 'taken'
  }

  receivedHead(head: AnswerHead): boolean {
    if (this.carrier.role !== 'gateway' || this.headSeen) return false
    this.headSeen = true
    this.sink?.head(head)
    return true
  }

  receivedEnd(): boolean {
    if (this.remoteEnded || (this.carrier.role === 'gateway' && !this.headSeen)) return false
    this.remoteEnded = true
    // The answer is complete, so the unsent rest of the request is no longer needed.
    if (this.carrier.role === 'gateway') this.finish()
    this.sink?.ended()
    return true
  }

  receivedReset(code: string): void {
    this.finish()
    this.sink?.reset(code)
  }

  /** Returns false if the credit exceeds a window. */
  receivedWindow(bytes: number): boolean {
    this.sendCredit += bytes
    if (this.sendCredit > windowBytes) return false
    if (this.pending !== null) this.carrier.queue(this)
    return true
  }

  private finish(): void {
    if (this.over) return
    this.over = true
    this.pending = null
    this.carrier.over(this)
  }
}
