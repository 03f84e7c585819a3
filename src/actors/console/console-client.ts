/** Bytes that may wait for one console, beside its first snapshot. */
export const consoleQueueBytesMax = 256 * 1024

/** One open console: what it does not read in time waits here, within a bound. */
export class ConsoleClient {
  readonly stream: ReadableStream<Uint8Array>
  private out: ReadableStreamDefaultController<Uint8Array> | null = null

  /** `gone`: it left. */
  constructor(first: Uint8Array, gone: () => void) {
    this.stream = new ReadableStream<Uint8Array>(
      {
        start: (controller) => {
          this.out = controller
          controller.enqueue(first)
        },
        cancel: () => {
          this.out = null
          gone()
        },
      },
      { highWaterMark: consoleQueueBytesMax + first.byteLength, size: (bytes) => bytes?.byteLength ?? 0 },
    )
  }

  /** False when it has fallen too far behind: it takes no more. */
  send(bytes: Uint8Array): boolean {
    const { out } = this
    if (out === null) return true
    if ((out.desiredSize ?? 0) <= 0) return false
    out.enqueue(bytes)
    return true
  }

  end(last: Uint8Array): void {
    const { out } = this
    this.out = null
    try {
      out?.enqueue(last)
      out?.close()
    } catch {
      // It left in the same moment: there is nobody to tell.
    }
  }
}
