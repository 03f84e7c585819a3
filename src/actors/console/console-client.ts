/** How many bytes may wait for one console in addition to its first snapshot. */
export const consoleQueueBytesMax = 256 * 1024

/** One open console. Events that it does not read in time wait here, up to a bound. */
export class ConsoleClient {
  readonly stream: ReadableStream<Uint8Array>
  private out: ReadableStreamDefaultController<Uint8Array> | null = null

  /** `gone` is called when the console has left. */
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

  /** Returns false if the console has fallen too far behind and gets no more events. */
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
      // The console left at the same moment, so no console is left to tell.
    }
  }
}
