import { type OpenHead, windowBytes } from '../../protocol/tunnel/tunnel-frames.ts'
import type { StreamSink, TunnelStream } from '../../protocol/tunnel/tunnel-stream.ts'

/** The program's own routes, as `app.handle` of Elysia or any other. */
export type Handle = (request: Request) => Promise<Response>

/** Never resolved: the request does not leave the process. */
const origin = 'http://localhost'
/** Headers of one connection, or expressed by the frames themselves. */
const notPassedOn = new Set(['connection', 'keep-alive', 'transfer-encoding', 'content-length', 'upgrade', 'trailer'])

/**
 * A request that arrives by the tunnel, handed to the routes in this process. A body that fits into one window is handed
 * over whole, since a stream costs several times the request; a longer one as it comes, held back by its reader.
 */
export class TunnelledRequest implements StreamSink {
  private readonly aborter = new AbortController()
  private collected: Buffer[] = []
  private collectedBytes = 0
  private body: ReadableStreamDefaultController<Uint8Array> | null = null
  private begun = false
  private reader: ReadableStreamDefaultReader<Uint8Array | string> | null = null
  private resume: (() => void) | null = null

  constructor(
    private readonly stream: TunnelStream,
    private readonly opened: OpenHead,
    private readonly handle: Handle,
  ) {}

  head(): void {}

  bytes(chunk: Buffer): void {
    if (this.body !== null) return this.pass(this.body, chunk)
    this.collected.push(chunk)
    this.collectedBytes += chunk.length
    if (this.collectedBytes > windowBytes) this.begin(this.streamed())
  }

  private pass(body: ReadableStreamDefaultController<Uint8Array>, chunk: Buffer): void {
    body.enqueue(chunk)
    if ((body.desiredSize ?? 0) <= 0) this.stream.pause()
  }

  private streamed(): ReadableStream<Uint8Array> {
    return new ReadableStream(
      {
        start: (controller) => {
          this.body = controller
          for (const chunk of this.collected.splice(0)) this.pass(controller, chunk)
        },
        pull: () => this.stream.resume(),
        cancel: () => {
          this.body = null
          this.stream.resume()
        },
      },
      { highWaterMark: windowBytes, size: (chunk) => chunk?.length ?? 0 },
    )
  }

  ended(): void {
    if (this.body !== null) return this.body.close()
    if (this.begun) return
    const [only, ...more] = this.collected.splice(0)
    this.begin(only === undefined ? null : more.length === 0 ? only : Buffer.concat([only, ...more]))
  }

  reset(): void {
    this.aborter.abort()
    this.body?.error(new Error('the request was cancelled'))
    this.body = null
    this.writable()
    void this.reader?.cancel().catch(() => {})
  }

  writable(): void {
    const { resume } = this
    this.resume = null
    resume?.()
  }

  private begin(body: ReadableStream<Uint8Array> | Buffer | null): void {
    this.begun = true
    void this.answer(body).catch(() => this.stream.reset('failed'))
  }

  private async answer(body: ReadableStream<Uint8Array> | Buffer | null): Promise<void> {
    const { method, path, headers } = this.opened
    const { signal } = this.aborter
    const request = new Request(origin + path, { method, headers, body: body as BodyInit | null, signal })
    // The path meant another one, which the routes would answer.
    if (request.url !== origin + path) throw new Error('the path is not canonical')
    const response = await this.handle(request)
    if (this.stream.over) return void response.body?.cancel().catch(() => {})
    if (!this.stream.head({ status: response.status, headers: headersOf(response) })) return
    if (response.body !== null) await this.sendBody(response.body)
    this.stream.end()
  }

  private async sendBody(body: ReadableStream<Uint8Array | string>): Promise<void> {
    this.reader = body.getReader()
    while (!this.stream.over) {
      const { done, value } = await this.reader.read()
      if (done) return
      // A `ReadableStream` of texts comes out of a `Response` as it went in.
      const bytes = typeof value === 'string' ? Buffer.from(value) : value
      if (this.stream.write(bytes) || this.stream.over) continue
      const { promise, resolve } = Promise.withResolvers<void>()
      this.resume = resolve
      await promise
    }
  }
}

function headersOf(response: Response): Record<string, string> {
  const headers: Record<string, string> = {}
  for (const [name, value] of response.headers) if (!notPassedOn.has(name)) headers[name] = value
  return headers
}
