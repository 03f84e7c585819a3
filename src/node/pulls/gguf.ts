/** The header of a GGUF file (https://github.com/ggml-org/ggml/blob/master/docs/gguf.md), as far as memory needs it. */

const magic = 0x46554747
const versions: readonly number[] = [2, 3]
/** Pairs of a header; real ones have some dozens. */
const pairsMax = 4_096
/** Text of one key, bytes, as the format bounds it. */
const keyBytesMax = 65_535
/** Items of an array that are kept: one for each layer. Vocabularies are longer, and only counted. */
const itemsKeptMax = 1_024

const scalarBytes: Readonly<Record<number, number>> = {
  0: 1,
  1: 1,
  2: 2,
  3: 2,
  4: 4,
  5: 4,
  6: 4,
  7: 1,
  10: 8,
  11: 8,
  12: 8,
}
const [stringType, arrayType] = [8, 9]

export type GgufValue = number | boolean | string | readonly number[] | { readonly count: number }
export type GgufPairs = ReadonlyMap<string, GgufValue>

class Ended extends Error {}
class Malformed extends Error {}

/** Reads numbers from the beginning of a file. Throws `Ended` where it would need more of it. */
class Reader {
  private at = 0
  private readonly view: DataView

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  u32(): number {
    return this.view.getUint32(this.take(4), true)
  }

  /** Throws for one beyond 2^53, which no file has. */
  u64(): number {
    const value = this.view.getBigUint64(this.take(8), true)
    if (value > BigInt(Number.MAX_SAFE_INTEGER)) throw new Malformed()
    return Number(value)
  }

  text(bytesMax: number): string {
    const size = this.u64()
    if (size > bytesMax) throw new Malformed()
    const from = this.take(size)
    return new TextDecoder().decode(this.bytes.subarray(from, from + size))
  }

  scalar(type: number): number | boolean {
    const from = this.take(scalarBytes[type] ?? 0)
    const { view } = this
    switch (type) {
      case 0:
        return view.getUint8(from)
      case 1:
        return view.getInt8(from)
      case 2:
        return view.getUint16(from, true)
      case 3:
        return view.getInt16(from, true)
      case 4:
        return view.getUint32(from, true)
      case 5:
        return view.getInt32(from, true)
      case 6:
        return view.getFloat32(from, true)
      case 7:
        return view.getUint8(from) !== 0
      case 10:
        return Number(view.getBigUint64(from, true))
      case 11:
        return Number(view.getBigInt64(from, true))
      case 12:
        return view.getFloat64(from, true)
      default:
        throw new Malformed()
    }
  }

  skip(bytes: number): void {
    this.take(bytes)
  }

  private take(bytes: number): number {
    const from = this.at
    if (from + bytes > this.bytes.length) throw new Ended()
    this.at += bytes
    return from
  }
}

const textBytesMax = 4 * 1024 * 1024

/** `counted`: hears how long an array is before its items, which may stand behind what was read. */
function readValue(reader: Reader, type: number, counted: (count: number) => void): GgufValue {
  if (type === stringType) return reader.text(textBytesMax)
  if (type !== arrayType) return reader.scalar(type)
  const itemType = reader.u32()
  const count = reader.u64()
  counted(count)
  const size = scalarBytes[itemType]
  if (itemType !== stringType && size === undefined) throw new Malformed()
  if (size !== undefined && count <= itemsKeptMax) {
    return Array.from({ length: count }, () => Number(reader.scalar(itemType)))
  }
  if (size !== undefined) reader.skip(count * size)
  else for (let item = 0; item < count; item++) reader.skip(reader.u64())
  return { count }
}

export interface GgufHead {
  readonly pairs: GgufPairs
  /** All pairs were there. False: the file goes on behind what was read. */
  readonly whole: boolean
}

/** Reads the pairs of a header from the beginning of its file. null: it is no such file. */
export function ggufHead(bytes: Uint8Array): GgufHead | null {
  const pairs = new Map<string, GgufValue>()
  try {
    const reader = new Reader(bytes)
    if (reader.u32() !== magic || !versions.includes(reader.u32())) return null
    reader.u64()
    const count = reader.u64()
    if (count > pairsMax) return null
    for (let pair = 0; pair < count; pair++) {
      const key = reader.text(keyBytesMax)
      const value = readValue(reader, reader.u32(), (length) => pairs.set(key, { count: length }))
      pairs.set(key, value)
    }
    return { pairs, whole: true }
  } catch (error) {
    if (error instanceof Ended) return { pairs, whole: false }
    if (error instanceof Malformed) return null
    throw error
  }
}
