/** A value as msgpack has it, as far as events of caches need it: maps have text keys alone. */
export type Packed =
  | null
  | boolean
  | number
  | bigint
  | string
  | Uint8Array
  | readonly Packed[]
  | { readonly [name: string]: Packed }

/** Values in a message, lists and maps included: a batch of 16,384 blocks of 16 tokens has 300,000. */
const valuesMax = 4_194_304
const depthMax = 16

/** The bytes are no msgpack, or more than is read. */
export class PackedFault extends Error {
  override readonly name = 'PackedFault'
}

const text = new TextDecoder()

/** https://github.com/msgpack/msgpack/blob/master/spec.md */
class PackedReader {
  private at = 0
  private left = valuesMax
  private readonly view: DataView

  constructor(private readonly bytes: Uint8Array) {
    this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  whole(): Packed {
    const value = this.value(0)
    if (this.at !== this.bytes.length) throw new PackedFault('bytes behind the value')
    return value
  }

  private value(depth: number): Packed {
    if (--this.left < 0 || depth > depthMax) throw new PackedFault('too many values')
    const head = this.bytes[this.take(1)] ?? 0
    if (head <= 0x7f) return head
    if (head >= 0xe0) return head - 0x100
    if (head >= 0xa0 && head <= 0xbf) return this.text(head & 0x1f)
    if (head >= 0x90 && head <= 0x9f) return this.list(head & 0x0f, depth)
    if (head <= 0x8f) return this.map(head & 0x0f, depth)
    return this.long(head, depth)
  }

  private long(head: number, depth: number): Packed {
    const { view } = this
    switch (head) {
      case 0xc0:
        return null
      case 0xc2:
        return false
      case 0xc3:
        return true
      case 0xc4:
        return this.slice(view.getUint8(this.take(1)))
      case 0xc5:
        return this.slice(view.getUint16(this.take(2)))
      case 0xc6:
        return this.slice(view.getUint32(this.take(4)))
      case 0xca:
        return view.getFloat32(this.take(4))
      case 0xcb:
        return view.getFloat64(this.take(8))
      case 0xcc:
        return view.getUint8(this.take(1))
      case 0xcd:
        return view.getUint16(this.take(2))
      case 0xce:
        return view.getUint32(this.take(4))
      case 0xcf:
        return view.getBigUint64(this.take(8))
      case 0xd0:
        return view.getInt8(this.take(1))
      case 0xd1:
        return view.getInt16(this.take(2))
      case 0xd2:
        return view.getInt32(this.take(4))
      case 0xd3:
        return view.getBigInt64(this.take(8))
      case 0xd9:
        return this.text(view.getUint8(this.take(1)))
      case 0xda:
        return this.text(view.getUint16(this.take(2)))
      case 0xdb:
        return this.text(view.getUint32(this.take(4)))
      case 0xdc:
        return this.list(view.getUint16(this.take(2)), depth)
      case 0xdd:
        return this.list(view.getUint32(this.take(4)), depth)
      case 0xde:
        return this.map(view.getUint16(this.take(2)), depth)
      case 0xdf:
        return this.map(view.getUint32(this.take(4)), depth)
      default:
        throw new PackedFault('an extension')
    }
  }

  /** Takes the next bytes; returns the offset of the first. */
  private take(bytes: number): number {
    const from = this.at
    this.at += bytes
    if (this.at > this.bytes.length) throw new PackedFault('cut off')
    return from
  }

  private slice(length: number): Uint8Array {
    const from = this.take(length)
    return this.bytes.subarray(from, this.at)
  }

  private text(length: number): string {
    return text.decode(this.slice(length))
  }

  private list(length: number, depth: number): readonly Packed[] {
    // Each value takes a byte at least, so that a length alone costs nothing.
    if (length > this.bytes.length - this.at) throw new PackedFault('cut off')
    const values: Packed[] = []
    for (let at = 0; at < length; at++) values.push(this.value(depth + 1))
    return values
  }

  private map(length: number, depth: number): { readonly [name: string]: Packed } {
    if (length * 2 > this.bytes.length - this.at) throw new PackedFault('cut off')
    const members: [string, Packed][] = []
    for (let at = 0; at < length; at++) {
      const name = this.value(depth + 1)
      const value = this.value(depth + 1)
      if (typeof name === 'string') members.push([name, value])
    }
    return Object.fromEntries(members)
  }
}

/** Reads one value, which must take all the bytes. Throws `PackedFault`. */
export const unpacked = (bytes: Uint8Array): Packed => new PackedReader(bytes).whole()
