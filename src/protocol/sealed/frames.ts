import { lengthBytes, tagBytes } from './ehbp.ts'

/** The largest frame that is taken, bytes of cipher text. Nobody here writes larger ones. */
const frameBytesMax = 64 * 1024 * 1024
/** More frames than this are no message but an attack on the reader, empty ones included. */
const framesMax = 1_000_000
/** Of a request, which clients send as one frame or a few. */
const requestFramesMax = 65_536

/** A frame around cipher text; a frame of length zero keeps a line alive and says nothing. */
export function framed(cipherText: Uint8Array): Uint8Array {
  const frame = new Uint8Array(lengthBytes + cipherText.length)
  new DataView(frame.buffer).setUint32(0, cipherText.length)
  frame.set(cipherText, lengthBytes)
  return frame
}

export const emptyFrame: Uint8Array = new Uint8Array(lengthBytes)

const lengthAt = (bytes: Uint8Array, at: number) =>
  new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(at)

/** The frames of a whole message without the empty ones, as views; null where it is no sequence of whole frames, or too many. */
export function splitFrames(message: Uint8Array, most: number = requestFramesMax): readonly Uint8Array[] | null {
  const frames: Uint8Array[] = []
  let seen = 0
  for (let at = 0; at < message.length; ) {
    if (at + lengthBytes > message.length || ++seen > most) return null
    const length = lengthAt(message, at)
    const from = at + lengthBytes
    at = from + length
    if (at > message.length || length > frameBytesMax) return null
    if (length === 0) continue
    if (length < tagBytes) return null
    frames.push(message.subarray(from, at))
  }
  return frames
}

/** Cuts a stream of bytes into frames. */
export class FrameReader {
  private held: Uint8Array[] = []
  private heldBytes = 0
  /** Of the frame that is coming; null: its length is not known yet. */
  private length: number | null = null
  private seen = 0

  /** Bytes of a frame that has not come whole. */
  get pending(): number {
    return this.heldBytes
  }

  /** The frames that are whole now, without empty ones; null: it is no sequence of frames, and nothing after it counts. */
  push(chunk: Uint8Array): readonly Uint8Array[] | null {
    this.held.push(chunk)
    this.heldBytes += chunk.length
    const frames: Uint8Array[] = []
    for (;;) {
      if (this.length === null) {
        if (this.heldBytes < lengthBytes) return frames
        this.length = lengthAt(this.take(lengthBytes), 0)
        if (this.length > frameBytesMax || ++this.seen > framesMax) return null
        if (this.length > 0 && this.length < tagBytes) return null
      }
      if (this.heldBytes < this.length) return frames
      if (this.length > 0) frames.push(this.take(this.length))
      this.length = null
    }
  }

  /** False: the stream has ended in the middle of a frame. */
  end(): boolean {
    return this.length === null && this.heldBytes === 0
  }

  private take(bytes: number): Uint8Array {
    const [first] = this.held
    this.heldBytes -= bytes
    if (first !== undefined && first.length >= bytes) {
      if (first.length === bytes) this.held.shift()
      else this.held[0] = first.subarray(bytes)
      return first.subarray(0, bytes)
    }
    const all = joined(this.held)
    this.held = all.length === bytes ? [] : [all.subarray(bytes)]
    return all.subarray(0, bytes)
  }
}

function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const all = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0))
  let at = 0
  for (const piece of pieces) {
    all.set(piece, at)
    at += piece.length
  }
  return all
}
