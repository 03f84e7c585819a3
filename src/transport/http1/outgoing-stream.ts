import type { BodyStream } from '../transport.ts'

const lineEnd = '\r\n'
const lastChunk = `0${lineEnd}${lineEnd}`

/** Writes a request whose body comes while it is sent: no faster than the node takes it. */
export class OutgoingStream {
  private waiting: (() => void) | null = null
  private stopped = false

  /** `write`: false where the node has not taken all of it yet, and `drained` follows. */
  constructor(
    private readonly body: BodyStream,
    private readonly write: (bytes: Uint8Array) => boolean,
  ) {}

  /** `head`: request line and headers, without the length. Resolves when all is written, or when no more is wanted. */
  async run(head: string): Promise<void> {
    const { length } = this.body
    const framing = length === null ? 'transfer-encoding: chunked' : `content-length: ${length}`
    await this.sent(Buffer.from(`${head}${framing}${lineEnd}${lineEnd}`))
    for (;;) {
      const bytes = this.stopped ? null : await this.body.next()
      if (this.stopped) return
      if (bytes === null) break
      // An empty chunk would be the last one.
      if (bytes.length > 0) await this.sent(length === null ? chunk(bytes) : bytes)
    }
    if (length === null) await this.sent(Buffer.from(lastChunk))
  }

  drained(): void {
    const resume = this.waiting
    this.waiting = null
    resume?.()
  }

  stop(): void {
    this.stopped = true
    this.drained()
  }

  private sent(bytes: Uint8Array): Promise<void> | undefined {
    if (this.stopped || this.write(bytes)) return undefined
    return new Promise((resolve) => {
      this.waiting = resolve
    })
  }
}

const chunk = (bytes: Uint8Array): Buffer =>
  Buffer.concat([Buffer.from(bytes.length.toString(16) + lineEnd), bytes, Buffer.from(lineEnd)])
