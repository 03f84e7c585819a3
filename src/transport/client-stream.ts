import type { BodyFlow } from './transport.ts'
import { turnShare } from './turn-share.ts'

/** Of text, UTF-16 units. */
const sizeOf = (piece: { readonly length: number } | undefined) => piece?.length ?? 0

/**
 * The client's end of a stream: what is written goes out at once, and beyond `queueMax` of what is unread the node is held
 * back until the client reads again.
 */
export class ClientStream<T extends string | Uint8Array = string> implements UnderlyingDefaultSource<T> {
  /** Of bytes, or of texts, which Bun's server writes as UTF-8: encoding them here would copy every chunk once more. */
  readonly stream: ReadableStream<T>
  /** `performance.now()` of the last write. */
  lastWriteMs = performance.now()
  /** Since when the client reads nothing; 0 while it reads. */
  stalledAtMs = 0
  /** The node that fills this stream. */
  source: BodyFlow | null = null
  private out: ReadableStreamDefaultController<T> | null = null
  /** Of what the client has not read; UTF-16 units, or bytes. */
  queued = 0
  /** It has been written to its end; called when the client has read all but a last queue of it, or is gone. */
  private onRead: (() => void) | null = null

  /** `queueMax`: UTF-16 units, or bytes. `gone`: the client left. */
  constructor(
    private readonly queueMax: number,
    private readonly gone: () => void,
  ) {
    // The source is this itself: closures of its own would stay with each of thousands of streams.
    this.stream = new ReadableStream<T>(this, { highWaterMark: queueMax, size: sizeOf })
  }

  start(controller: ReadableStreamDefaultController<T>): void {
    this.out = controller
  }

  cancel(): void {
    this.out = null
    this.read()
    this.gone()
  }

  write(text: T, nowMs: number): void {
    const { out } = this
    if (out === null) return
    try {
      out.enqueue(text)
    } catch {
      return this.gone()
    }
    this.lastWriteMs = nowMs
    const room = out.desiredSize ?? 0
    this.queued = this.queueMax - room
    if (room > 0 || this.stalledAtMs > 0) return
    this.stalledAtMs = nowMs
    this.source?.pause()
  }

  close(): void {
    const { out } = this
    this.out = null
    try {
      out?.close()
    } catch {
      // Cancelled by the client in the same moment: there is nobody left to close for.
    }
  }

  /** Closes it once the client has taken what is queued beyond a full queue. `read`: called then, or when the client is gone. */
  closeWhenRead(read: () => void): void {
    if (this.out === null || this.queued <= this.queueMax) {
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
    const { out } = this
    this.out = null
    out?.error()
    this.read()
  }

  /** The client has read. */
  pull(): void {
    if (this.onRead !== null) {
      this.close()
      return this.read()
    }
    if (this.stalledAtMs === 0) return
    this.stalledAtMs = 0
    this.source?.resume()
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
