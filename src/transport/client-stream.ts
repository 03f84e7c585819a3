import type { BodyFlow } from './transport.ts'
import { turnShare } from './turn-share.ts'

/** So many pieces that were given may stand before those that wait. */
const givenMax = 1_024

/**
 * The client's end of a stream: what is written in a turn of the event loop goes out at its end, and beyond `queueMax` of what
 * the client has not taken the node is held back until it reads again. Bun's server calls `pull` once, when it sends the head.
 */
export class ClientStream<T extends string | Uint8Array = string> implements Bun.DirectUnderlyingSource<T> {
  /** Bun gives such a stream no queue of its own: a chunk costs a tenth less (bench/notebook). Only Bun's server may read it. */
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
  /** Not given to Bun yet: before the head is sent, and while the client's socket is full. The first `given` of it are given. */
  private waiting: T[] = []
  private given = 0
  private full = false
  private phase: 'open' | 'closed' | 'cut' = 'open'
  /** Ends what `pull` has begun. */
  private served: Pick<PromiseWithResolvers<void>, 'resolve' | 'reject'> | null = null
  /** Of what the client has not taken; UTF-16 units, or bytes. */
  queued = 0
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
    if (this.phase === 'closed') this.end(out)
    else this.hand(out)
    return promise
  }

  cancel(): void {
    const open = this.phase === 'open'
    this.phase = 'closed'
    this.forget()
    this.letGo()
    this.read()
    if (open) this.gone()
  }

  write(text: T, nowMs: number): void {
    if (this.phase !== 'open') return
    this.lastWriteMs = nowMs
    if (this.out !== null && !this.full) this.send(this.out, text)
    else {
      this.waiting.push(text)
      this.queued += text.length
    }
    if (this.queued < this.queueMax || this.stalledAtMs > 0) return
    this.stalledAtMs = nowMs
    this.source?.pause()
  }

  private send(out: ReadableStreamDirectController, piece: T): void {
    const sent = out.write(piece as string | Buffer<ArrayBuffer>)
    if (typeof sent === 'number') return
    // The piece filled the socket. The promise resolves when the client has taken it, or has left; it never fails.
    this.full = true
    this.queued += piece.length
    void sent.then(() => {
      this.full = false
      this.queued -= piece.length
      if (this.out !== null) this.hand(this.out)
    })
  }

  /** Gives Bun what waits, until the socket is full again. Each piece that the client takes shows that it still reads. */
  private hand(out: ReadableStreamDirectController): void {
    while (!this.full && this.given < this.waiting.length) this.send(out, this.next())
    if (this.onRead !== null && this.queued <= this.queueMax) {
      this.close()
      return this.read()
    }
    if (this.queued < this.queueMax) this.resume()
  }

  private next(): T {
    const piece = this.waiting[this.given++] as T
    this.queued -= piece.length
    // Moving the rest forward each time would cost the square of a long queue.
    if (this.given === this.waiting.length || this.given === givenMax) {
      this.waiting.splice(0, this.given)
      this.given = 0
    }
    return piece
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

  /** Bun keeps what the client has not taken, and delivers it. */
  private end(out: ReadableStreamDirectController): void {
    while (this.given < this.waiting.length) void out.write(this.next() as string | Buffer<ArrayBuffer>)
    out.close()
    this.letGo()
  }

  private forget(): void {
    this.waiting = []
    this.given = 0
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
    this.forget()
    this.reset()
    this.read()
  }

  /** Without a reason: Bun would print it. */
  private reset(): void {
    this.served?.reject()
    this.served = null
  }
}

/** What writers of a stream need of its client's end. */
export type ClientEnd = Pick<
  ClientStream,
  'stream' | 'source' | 'stalledAtMs' | 'queued' | 'lastWriteMs' | 'write' | 'close' | 'closeWhenRead' | 'cut'
>

/** Of one write of a long end, UTF-16 units. */
const pieceUnits = 128 * 1024

/** The end of a stream that repeats much of it: written line by line, some lines a turn, and then closed. */
class LongEnd {
  private at = 0

  constructor(
    private readonly client: ClientEnd,
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

const closeEnd = (client: ClientEnd, read: (() => void) | null) =>
  read === null ? client.close() : client.closeWhenRead(read)

/** Writes the last of a stream, and closes it. `read`: called when the client has read all but a last queue of it, or is gone. */
export function writeEnd(client: ClientEnd, text: string, nowMs: number, read: (() => void) | null = null): void {
  if (text.length > pieceUnits) return turnShare.queue(new LongEnd(client, text, read), text.length)
  client.write(text, nowMs)
  closeEnd(client, read)
}
