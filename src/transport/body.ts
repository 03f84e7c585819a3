import { createBrotliDecompress, createGunzip, createInflate, createZstdDecompress } from 'node:zlib'
import { type BodyFlow, type BodySink, handPart, TransportError, viewOf } from './transport.ts'
import { turnShare } from './turn-share.ts'

/** Has heard the end. */
const nobody: BodySink = { bytes: () => {}, ended: () => {}, failed: () => {} }

/** Bytes that may wait for a reader before the node is held back. */
const waitingBytesMax = 64 * 1024
/** No more is handed on at once: between two pieces others may have their turn. */
const pieceBytesMax = 32 * 1024

/**
 * A body between its connection and its one reader. What comes before the reader waits, bounded; what comes when node bytes
 * have had their share of a turn waits for the next one, in its order and before the end.
 */
export class Body implements BodySink, BodyFlow {
  private sink: BodySink | null = null
  /** null: nothing waits. */
  private waiting: Buffer[] | null = null
  /** Of `waiting`: how many were handed on, and how much of the next one. */
  private handed = 0
  private handedBytes = 0
  private waitingBytes = 0
  private over = false
  private error: TransportError | null = null
  /** By the reader. */
  private held = false
  private flows = true
  private handing = false
  private queued = false
  /** A decoder stands between the connection and this. */
  decoder: (BodyFlow & { destroy(): void }) | null = null

  /** `connection`: held with this one until it has given all. */
  constructor(private connection: BodyFlow | null) {}

  get flow(): BodyFlow {
    return this
  }

  pause(): void {
    this.held = true
    this.steer()
  }

  resume(): void {
    this.held = false
    if (this.sink !== null && this.waiting !== null) this.hand()
    this.steer()
  }

  /** The node is held back while much of it waits: to hold it back for a chunk would cost more than the chunk. */
  private steer(): void {
    const flows = !this.held && this.waitingBytes <= waitingBytesMax
    if (flows === this.flows) return
    this.flows = flows
    if (flows) {
      this.connection?.resume()
      this.decoder?.resume()
    } else {
      this.connection?.pause()
      this.decoder?.pause()
    }
  }

  /** The connection may carry another answer now: a reader that is still held back must not hold that one. */
  letGo(): void {
    if (!this.flows) this.connection?.resume()
    this.connection = null
  }

  bytes(chunk: Buffer): void {
    this.part(chunk, 0, chunk.length)
  }

  part(input: Buffer, from: number, to: number): void {
    const { sink } = this
    if (sink !== null && this.waiting === null && to - from <= pieceBytesMax && turnShare.takes(to - from)) {
      return handPart(sink, input, from, to)
    }
    const chunk = viewOf(input, from, to)
    if (this.waiting === null) this.waiting = [chunk]
    else this.waiting.push(chunk)
    this.waitingBytes += chunk.length
    if (sink !== null) this.hand()
    this.steer()
  }

  /** Its turn has come. */
  handOn(): void {
    this.queued = false
    this.hand()
    this.steer()
  }

  private hand(): void {
    if (this.handing) return
    this.handing = true
    while (this.waiting !== null && !this.held && this.handPiece(this.waiting));
    this.handing = false
    if (this.over && this.waiting === null) this.tellEnd()
  }

  /** False: not in this turn. */
  private handPiece(waiting: Buffer[]): boolean {
    const chunk = waiting[this.handed] as Buffer
    const from = this.handedBytes
    const piece = from === 0 && chunk.length <= pieceBytesMax ? chunk : chunk.subarray(from, from + pieceBytesMax)
    if (!turnShare.takes(piece.length)) {
      if (!this.queued) turnShare.queue(this, this.waitingBytes)
      this.queued = true
      return false
    }
    this.waitingBytes -= piece.length
    this.handedBytes += piece.length
    if (this.handedBytes === chunk.length) {
      this.handed++
      this.handedBytes = 0
      if (this.handed === waiting.length) this.forget()
    }
    this.sink?.bytes(piece)
    return true
  }

  private forget(): void {
    this.waiting = null
    this.handed = 0
    this.handedBytes = 0
    this.waitingBytes = 0
  }

  ended(): void {
    if (this.over) return
    this.over = true
    this.letGo()
    if (this.waiting === null && !this.handing) this.tellEnd()
  }

  /** What came before a failure of the node is handed on before it; behind this side's own cut it is not needed. */
  failed(error: TransportError): void {
    if (this.over) return
    this.over = true
    this.error = error
    this.letGo()
    if (this.sink !== null && error.failure === 'aborted') this.forget()
    if (this.waiting === null && (!this.handing || error.failure === 'aborted')) this.tellEnd()
  }

  /** To its reader; one that is yet to come hears it then. */
  private tellEnd(): void {
    const { sink } = this
    if (sink === null) return
    this.sink = nobody
    if (this.error === null) sink.ended()
    else sink.failed(this.error)
  }

  /** It is not read: a few bytes that were still to unfold to very many do not. */
  discard(): void {
    this.decoder?.destroy()
  }

  read(sink: BodySink): void {
    this.sink = sink
    if (this.waiting !== null) this.hand()
    else if (this.over) this.tellEnd()
    this.steer()
  }

  /** The text of a body that has come whole already, as a short one does together with its head; else null. */
  protected takeWhole(bytesMax: number): string | null {
    if (!this.over || this.error !== null || this.waitingBytes > bytesMax) return null
    const chunks = this.waiting ?? []
    this.forget()
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

/**
 * The most that a body may unfold to: this multiple of its own bytes, and these bytes besides. Events of a stream, which repeat much, unfold to
 * some 30 times.
 */
const unfoldedTimesMax = 64
const unfoldedBytesMore = 4 * 1024 * 1024

/** For a node that compresses although it was asked not to: a decoder before the body, or null for an unknown coding. */
export function decoded(coding: string, body: Body): BodySink | null {
  const make = decoders[coding as keyof typeof decoders]
  if (make === undefined) return null
  const decoder = make()
  // A few bytes can unfold to very many, so the decoder is held back as well.
  body.decoder = decoder
  let [packedBytes, unfoldedBytes] = [0, 0]
  decoder.on('data', (chunk: Buffer) => {
    unfoldedBytes += chunk.length
    if (unfoldedBytes <= unfoldedTimesMax * packedBytes + unfoldedBytesMore) return body.bytes(chunk)
    decoder.destroy()
    body.failed(new TransportError('malformed'))
  })
  decoder.on('end', () => body.ended())
  decoder.on('error', () => body.failed(new TransportError('malformed')))
  return {
    bytes: (chunk) => {
      packedBytes += chunk.length
      decoder.write(chunk)
    },
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
