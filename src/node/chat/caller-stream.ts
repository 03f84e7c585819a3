import type { BodyFlow } from '../../transport/transport.ts'

/**
 * The caller's end of an agent's stream, which Bun's server reads, or the tunnel: writes go out at once. If more than
 * `queueMax` UTF-16 units are unread, the runtime is paused until the caller reads again.
 */
export class CallerStream implements UnderlyingDefaultSource<string> {
  readonly stream: ReadableStream<string>
  /** The runtime's body that fills this stream. */
  source: BodyFlow | null = null
  private out: ReadableStreamDefaultController<string> | null = null
  private held = false

  /** `gone`: the caller left. */
  constructor(
    queueMax: number,
    private readonly gone: () => void,
  ) {
    const size = (text: string | undefined) => text?.length ?? 0
    this.stream = new ReadableStream<string>(this, { highWaterMark: queueMax, size })
  }

  start(controller: ReadableStreamDefaultController<string>): void {
    this.out = controller
  }

  cancel(): void {
    this.out = null
    this.gone()
  }

  write(text: string): void {
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
