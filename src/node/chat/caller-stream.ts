import type { BodyFlow } from '../../transport/transport.ts'

/**
 * The caller's end of an agent's stream, which Bun's server reads, or the tunnel: writes go out at once. If more than
 * `queueMax` are unread, bytes or the UTF-16 units of texts, the runtime is paused until the caller reads again.
 */
export class CallerStream<T extends string | Uint8Array = string> implements UnderlyingDefaultSource<T> {
  readonly stream: ReadableStream<T>
  /** The runtime's body that fills this stream. */
  source: BodyFlow | null = null
  private out: ReadableStreamDefaultController<T> | null = null
  private held = false

  /** `gone`: the caller left. */
  constructor(
    queueMax: number,
    private readonly gone: () => void,
  ) {
    const size = (text: T | undefined) => text?.length ?? 0
    this.stream = new ReadableStream<T>(this, { highWaterMark: queueMax, size })
  }

  start(controller: ReadableStreamDefaultController<T>): void {
    this.out = controller
  }

  cancel(): void {
    this.out = null
    this.gone()
  }

  write(text: T): void {
    const { out } = this
    if (out === null) return
    try {
      out.enqueue(text)
    } catch {
      return this.gone()
    }
    if ((out.desiredSize ?? 0) > 0 || this.held) return
    this.held = true
    this.source?.pause()
  }

  close(): void {
    const { out } = this
    this.out = null
    try {
      out?.close()
    } catch {
      // The caller has cancelled the stream in the same moment.
    }
  }

  /** The caller has read. */
  pull(): void {
    if (!this.held) return
    this.held = false
    this.source?.resume()
  }
}
