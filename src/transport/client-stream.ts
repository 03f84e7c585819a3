import type { BodyFlow } from './transport.ts'
import { turnShare } from './turn-share.ts'

/**
 * The client's end of a stream: what is written in a turn of the event loop goes out at its end, and beyond `queueMax` of what
 * the client has not taken the node is held back until it reads again. Bun's server calls `pull` once, when it sends the head.
 */
export class ClientStream<T extends string | Uint8Array = string> implements Bun.DirectUnderlyingSource<T> {
  /** Bun gives such a stream no queue of its own: a chunk costs a tenth less (bench/RESULTS.md). Only Bun's server may read it. */
  readonly type = 'direct'
  /** Of bytes, or of texts, which Bun's server writes as UTF-8: encoding them here would copy every chunk once more. */
  readonly stream: ReadableStream<T>
  /** `performance.now()` of the last write. */
  lastWriteMs = performance.now()
  /** Since when the client reads nothing; 0 while it reads. */
  stalledAtMs = 0
  /** The node that fills this stream. */
  source: BodyFlow | null = null
  private out: ReadableStreamDirectController | null = null
  /** Written before the head was. */
  private early: T[] = []
  private phase: 'open' | 'closed' | 'cut' = 'open'
  /** Ends what `pull` has begun. */
  private served: Pick<PromiseWithResolvers<void>, 'resolve' | 'reject'> | null = null
  /** Of what the client has not taken; UTF-16 units, or bytes. */
  queued = 0
  /** A full socket will tell when it has room. */
  private waits = false
  /** It has been written to its end; called when the client has taken all but a last queue of it, or is gone. */
  private onRead: (() => void) | null = null

  /** `queueMax`: UTF-16 units, or bytes. `gone`: the client left. */
  constructor(
    private readonly queueMax: number,
    private readonly gone: () => void,
  ) {
    // The source is this itself: closures of its own would stay with each of thousands of streams.
    // The types of the web know none of type `direct`.
    this.stream = new ReadableStream<T>(this as unknown as UnderlyingDefaultSource<T>)
  }

  pull(out: ReadableStreamDirectController): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.served = { resolve, reject }
    if (this.phase === 'cut') {
      this.reset()
      return promise
    }
    this.out = out
    this.queued = 0
    for (const piece of this.early.splice(0)) this.send(out, piece)
    if (this.phase === 'closed') this.end(out)
    else if (!this.waits) this.resume()
    return promise
  }

  cancel(): void {
    const open = this.phase === 'open'
    this.phase = 'closed'
    this.letGo()
    this.read()
    if (open) this.gone()
  }

  write(text: T, nowMs: number): void {
    if (this.phase !== 'open') return
    this.lastWriteMs = nowMs
    if (this.out !== null) this.send(this.out, text)
    else {
      this.early.push(text)
      this.queued += text.length
    }
    if (this.queued < this.queueMax || this.stalledAtMs > 0) return
    this.stalledAtMs = nowMs
    this.source?.pause()
  }

  private send(out: ReadableStreamDirectController, piece: T): void {
    // A number, or a promise where the client's socket is full, which resolves when it has taken what waits.
    const sent = out.write(piece as string | Buffer<ArrayBuffer>)
    if (typeof sent === 'number') return
    this.queued += piece.length
    if (this.waits) return
    this.waits = true
    // It never fails: where the client leaves, it resolves as well.
    void sent.then(() => this.taken())
  }

  /** The client has taken what it had not. */
  private taken(): void {
    this.waits = false
    this.queued = 0
    if (this.onRead === null) return this.resume()
    this.close()
    this.read()
  }

  private resume(): void {
    if (this.stalledAtMs === 0 || this.phase !== 'open') return
    this.stalledAtMs = 0
    this.source?.resume()
  }

  close(): void {
    if (this.phase !== 'open') return
    this.phase = 'closed'
    if (this.out !== null) this.end(this.out)
  }

  private end(out: ReadableStreamDirectController): void {
    out.close()
    this.letGo()
  }

  /** Nothing more comes. */
  private letGo(): void {
    this.out = null
    this.served?.resolve()
    this.served = null
  }

  /** Closes it once the client has taken what is queued beyond a full queue. `read`: called then, or when the client is gone. */
  closeWhenRead(read: () => void): void {
    if (this.phase !== 'open' || this.queued <= this.queueMax) {
      this.close()
      return read()
    }
    this.onRead = read
  }

  private read(): void {
    const { onRead } = this
    this.onRead = null
    onRead?.()
  }

  /** Resets the connection: a client that reads on must not take what it got for a whole answer. */
  cut(): void {
    if (this.phase !== 'open') return
    this.phase = 'cut'
    this.out = null
    this.early = []
    this.reset()
    this.read()
  }

  /** Without a reason: Bun would print it. */
  private reset(): void {
    this.served?.reject()
    this.served = null
  }
}

/** Of one write of a long end, UTF-16 units. */
const pieceUnits = 128 * 1024

/** The end of a stream that repeats much of it: written line by line, some lines a turn, and then closed. */
class LongEnd {
  private at = 0

  constructor(
    private readonly client: ClientStream,
    private readonly text: string,
    private readonly read: (() => void) | null,
  ) {}

  handOn(): void {
    while (this.at < this.text.length) {
      const to = this.lineEnd()
      if (!turnShare.takes(to - this.at)) return turnShare.queue(this, this.text.length)
      this.client.write(this.text.slice(this.at, to), performance.now())
      this.at = to
    }
    closeEnd(this.client, this.read)
  }

  /** Only there: elsewhere it could part the halves of a character. */
  private lineEnd(): number {
    const end = this.text.indexOf('\n', this.at + pieceUnits)
    return end === -1 ? this.text.length : end + 1
  }
}

const closeEnd = (client: ClientStream, read: (() => void) | null) =>
  read === null ? client.close() : client.closeWhenRead(read)

/** Writes the last of a stream, and closes it. `read`: called when the client has read all but a last queue of it, or is gone. */
export function writeEnd(client: ClientStream, text: string, nowMs: number, read: (() => void) | null = null): void {
  if (text.length > pieceUnits) return turnShare.queue(new LongEnd(client, text, read), text.length)
  client.write(text, nowMs)
  closeEnd(client, read)
}
