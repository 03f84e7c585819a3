import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { type BodyFlow, type BodySink, TransportError } from './transport.ts'

/** Bytes that may wait for a reader before the node is held back. */
const waitingBytesMax = 64 * 1024

/** A body between its connection and its one reader: what comes before the reader waits, bounded. */
export class Body implements BodySink, BodyFlow {
  private sink: BodySink | null = null
  /** null: nothing waits. */
  private waiting: Buffer[] | null = null
  private waitingBytes = 0
  private over = false
  private error: TransportError | null = null
  private held = false
  /** A decoder stands between the connection and this. */
  decoder: (BodyFlow & { destroy(): void }) | null = null

  /** `connection`: held with this one until it has given all. */
  constructor(private connection: BodyFlow | null) {}

  get flow(): BodyFlow {
    return this
  }

  pause(): void {
    this.held = true
    this.connection?.pause()
    this.decoder?.pause()
  }

  resume(): void {
    this.held = false
    this.connection?.resume()
    this.decoder?.resume()
  }

  /** The connection may carry another answer now: a reader that is still held back must not hold that one. */
  letGo(): void {
    if (this.held) this.connection?.resume()
    this.connection = null
  }

  bytes(chunk: Buffer): void {
    if (this.sink !== null) return this.sink.bytes(chunk)
    if (this.waiting === null) this.waiting = [chunk]
    else this.waiting.push(chunk)
    this.waitingBytes += chunk.length
    if (this.waitingBytes > waitingBytesMax) this.pause()
  }

  ended(): void {
    if (this.over) return
    this.over = true
    this.letGo()
    this.sink?.ended()
  }

  failed(error: TransportError): void {
    if (this.over) return
    this.over = true
    this.error = error
    this.letGo()
    this.sink?.failed(error)
  }

  /** Nobody reads it: a few bytes that were still to unfold to very many do not. */
  discard(): void {
    this.decoder?.destroy()
  }

  read(sink: BodySink): void {
    this.sink = sink
    const { waiting } = this
    this.waiting = null
    // Before the first byte is handed on: the reader may well pause at it.
    if (!this.over && this.waitingBytes > waitingBytesMax) this.resume()
    if (waiting !== null) for (const chunk of waiting) sink.bytes(chunk)
    if (!this.over) return
    if (this.error === null) sink.ended()
    else sink.failed(this.error)
  }

  /** The text of a body that has come whole already, as a short one does together with its head; else null. */
  protected takeWhole(bytesMax: number): string | null {
    if (!this.over || this.error !== null || this.waitingBytes > bytesMax) return null
    const chunks = this.waiting ?? []
    this.waiting = null
    return textOf(chunks)
  }
}

export function textOf(chunks: readonly Buffer[]): string {
  const [only] = chunks
  return (only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks)).toString('utf8')
}

/** Collects a body as text, at most `bytesMax` of it. */
export function collectText(read: (sink: BodySink) => void, bytesMax: number, giveUp: () => void): Promise<string> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = []
    let size = 0
    read({
      bytes: (chunk) => {
        size += chunk.length
        if (size <= bytesMax) {
          chunks.push(chunk)
          return
        }
        reject(new TransportError('too_large'))
        giveUp()
      },
      ended: () => resolve(textOf(chunks)),
      failed: reject,
    })
  })
}

const decoders = {
  gzip: createGunzip,
  'x-gzip': createGunzip,
  deflate: createInflate,
  br: createBrotliDecompress,
  zstd: createZstdDecompress,
} as const

/** For a node that compresses although it was asked not to: a decoder before the body, or null for an unknown coding. */
export function decoded(coding: string, body: Body): BodySink | null {
  const make = decoders[coding as keyof typeof decoders]
  if (make === undefined) return null
  const decoder = make()
  // A few bytes can unfold to very many, so the decoder is held back as well.
  body.decoder = decoder
  decoder.on('data', (chunk: Buffer) => body.bytes(chunk))
  decoder.on('end', () => body.ended())
  decoder.on('error', () => body.failed(new TransportError('malformed')))
  return {
    bytes: (chunk) => void decoder.write(chunk),
    ended: () => {
      body.letGo()
      decoder.end()
    },
    failed: (error) => {
      decoder.destroy()
      body.failed(error)
    },
  }
}
