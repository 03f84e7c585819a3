import { textBytes, uncountedBytesMax } from '../host/budget.ts'
import type { CountedKeeper } from '../host/counted-keeper.ts'
import type { LargeWork } from '../host/large-work.ts'
import { textOf } from './body.ts'
import { type BodySink, type NodeResponse, TransportError, type TransportFailure } from './transport.ts'

/** The number of pieces at which a body is joined, however small it is: a node may send it byte by byte. */
const piecesMax = 64
const noBytes = Buffer.alloc(0)

/**
 * A body while it comes, counted for a keeper as the text that it will become. A small one stays in the pieces in which it came. A
 * larger one is put together in a buffer of our own, which is freed at once when it is no longer needed: pieces would be there until
 * the next collection.
 */
export class CountedText {
  private pieces: Buffer[] = []
  private block: Buffer = noBytes
  /** Bytes so far. */
  protected size = 0

  constructor(
    private readonly keeper: CountedKeeper,
    private readonly work: LargeWork,
    private readonly bytesMax: number,
  ) {}

  /** Why this piece, and so the body, is not kept; null: it is. */
  protected add(response: NodeResponse, piece: Buffer): TransportFailure | null {
    this.size += piece.length
    if (this.block === noBytes && this.size <= uncountedBytesMax && this.pieces.length < piecesMax) {
      this.pieces.push(piece)
      return null
    }
    if (this.size > this.block.length) {
      const fault = this.widen(response)
      if (fault !== null) return fault
    }
    this.block.set(piece, this.size - piece.length)
    this.work.came(response.flow, piece.length)
    return null
  }

  private widen(response: NodeResponse): TransportFailure | null {
    const declared = this.block === noBytes ? declaredBytes(response) : 0
    if (Math.max(this.size, declared) > this.bytesMax) return 'too_large'
    const capacity = declared >= this.size ? declared : Math.min(this.bytesMax, 2 * this.size)
    if (!this.keeper.keeps(textBytes(capacity))) return 'aborted'
    const { block } = this
    // `transfer` frees the old one.
    const room = block === noBytes ? new ArrayBuffer(capacity) : (block.buffer as ArrayBuffer).transfer(capacity)
    const wider = Buffer.from(room)
    let at = 0
    for (const piece of this.pieces) {
      wider.set(piece, at)
      at += piece.length
    }
    this.pieces = []
    this.block = wider
    return null
  }

  protected get small(): boolean {
    return this.block === noBytes
  }

  /** All of it is there: `use` takes its text in its turn. */
  protected whole(use: () => void): void {
    if (this.small) return use()
    this.keeper.arrived()
    this.work.take(this.size, use)
  }

  protected takeText(): string {
    const { pieces, block, size } = this
    const text = block === noBytes ? textOf(pieces) : block.toString('utf8', 0, size)
    this.drop()
    return text
  }

  protected drop(): void {
    const { block } = this
    this.pieces = []
    this.block = noBytes
    if (block !== noBytes) (block.buffer as ArrayBuffer).transfer(0)
  }
}

/** What the node says before it sends it, so that a body that does not fit ends before its bytes have come. 0: it does not say. */
function declaredBytes({ headers }: NodeResponse): number {
  const length = Number(headers.get('content-length'))
  return Number.isSafeInteger(length) && length > 0 ? length : 0
}

class TextReader extends CountedText implements BodySink {
  constructor(
    keeper: CountedKeeper,
    work: LargeWork,
    bytesMax: number,
    private readonly response: NodeResponse,
    private readonly resolve: (text: string) => void,
    private readonly reject: (error: TransportError) => void,
  ) {
    super(keeper, work, bytesMax)
  }

  bytes(piece: Buffer): void {
    const fault = this.add(this.response, piece)
    if (fault === null) return
    this.drop()
    this.reject(new TransportError(fault))
    this.response.discard()
  }

  ended(): void {
    this.whole(() => this.resolve(this.takeText()))
  }

  failed(error: TransportError): void {
    this.drop()
    this.reject(error)
  }
}

/** The whole body as UTF-8, counted, in its turn among large ones. Rejects with `TransportError`. */
export const countedText = (
  response: NodeResponse,
  keeper: CountedKeeper,
  work: LargeWork,
  bytesMax: number,
): Promise<string> =>
  new Promise((resolve, reject) => response.read(new TextReader(keeper, work, bytesMax, response, resolve, reject)))
