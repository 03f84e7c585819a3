const linesPerChunk = 512
/** Of usual lines. */
const chunkBytes = 256 * 1024
const utf8BytesPerUnitMax = 3
/** Chunks that are kept for the next lines, so that a busy gateway asks for no memory. */
const spareMax = 8

interface Chunk {
  bytes: Buffer
  /** Where each line ends. */
  readonly ends: Uint32Array
}

const newChunk = (): Chunk => ({ bytes: Buffer.allocUnsafeSlow(chunkBytes), ends: new Uint32Array(linesPerChunk) })

/**
 * Lines that wait for the database as bytes, one behind the other, and no object for each (decision 24). A line is known by its
 * number, which are given in order, and lines leave in their order.
 */
export class LineStore {
  private readonly chunks: Chunk[] = []
  private readonly spare: Chunk[] = []
  /** The number of the first chunk: that of its first line, in chunks. */
  private firstChunk = 0
  private next = 0

  /** `line`: with its end. Returns its number. */
  add(line: string): number {
    const number = this.next++
    const at = number % linesPerChunk
    if (at === 0) this.chunks.push(this.spare.pop() ?? newChunk())
    const chunk = this.chunks.at(-1) as Chunk
    const from = startOf(chunk, at)
    const most = line.length * utf8BytesPerUnitMax
    if (chunk.bytes.length - from < most) chunk.bytes = larger(chunk.bytes, from, most)
    chunk.ends[at] = from + chunk.bytes.utf8Write(line, from)
    return number
  }

  /** The bytes of the lines from `first` to `last`, which are still here. They stay as they are until `leave`. */
  bytes(first: number, last: number): readonly Buffer[] {
    const pieces: Buffer[] = []
    for (let number = first; number <= last; ) {
      const place = Math.floor(number / linesPerChunk)
      const chunk = this.chunks[place - this.firstChunk] as Chunk
      const lastHere = Math.min(last, (place + 1) * linesPerChunk - 1)
      pieces.push(chunk.bytes.subarray(startOf(chunk, number % linesPerChunk), chunk.ends[lastHere % linesPerChunk]))
      number = lastHere + 1
    }
    return pieces
  }

  /** The lines up to this one are no longer needed. `unread`: a sender may still read their bytes, which must not change. */
  leave(last: number, unread: boolean): void {
    while (this.chunks.length > 0 && (this.firstChunk + 1) * linesPerChunk - 1 <= last) {
      const gone = this.chunks.shift() as Chunk
      this.firstChunk++
      if (!unread && gone.bytes.length === chunkBytes && this.spare.length < spareMax) this.spare.push(gone)
    }
  }
}

const startOf = ({ ends }: Chunk, at: number): number => (at === 0 ? 0 : (ends[at - 1] ?? 0))

/** A copy of what stands there, with room for so much more: a sender that reads the old one can go on. */
function larger(bytes: Buffer, used: number, more: number): Buffer {
  const made = Buffer.allocUnsafeSlow(Math.max(2 * bytes.length, used + more))
  bytes.copy(made, 0, 0, used)
  return made
}
