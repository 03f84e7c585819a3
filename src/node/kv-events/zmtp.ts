/**
 * The part of ZMTP 3.0 that a subscriber and an asker need, without security (mechanism NULL): https://rfc.zeromq.org/spec/23/.
 * libzmq speaks it with peers of any later version.
 */

/** Bytes of a frame: a batch with the tokens of 300,000 prompt tokens takes 1.5 MB. */
export const frameBytesMax = 16 * 1024 * 1024
/** Frames of a message. */
const framesMax = 8
/** Bytes of a command: `READY` with its properties, `PING`. */
const commandBytesMax = 4_096

const greetingBytes = 64
/** Flags and size of a frame. */
const [headBytes, longHeadBytes] = [2, 9]
const [more, long, command] = [0x01, 0x02, 0x04]

/** The peer does not speak ZMTP, or speaks of more than is read. */
class ZmtpFault extends Error {
  override readonly name = 'ZmtpFault'
}

/** Version 3.0, mechanism NULL, not as a server. */
export function greeting(): Uint8Array {
  const bytes = new Uint8Array(greetingBytes)
  bytes[0] = 0xff
  bytes[9] = 0x7f
  bytes[10] = 3
  bytes.set(new TextEncoder().encode('NULL'), 12)
  return bytes
}

function frame(flags: number, body: Uint8Array): Uint8Array {
  const isLong = body.length > 255
  const bytes = new Uint8Array((isLong ? longHeadBytes : headBytes) + body.length)
  bytes[0] = flags | (isLong ? long : 0)
  if (isLong) new DataView(bytes.buffer).setBigUint64(1, BigInt(body.length))
  else bytes[1] = body.length
  bytes.set(body, isLong ? longHeadBytes : headBytes)
  return bytes
}

/** A message of these frames. */
export function message(...bodies: readonly Uint8Array[]): Uint8Array {
  return Buffer.concat(bodies.map((body, at) => frame(at === bodies.length - 1 ? 0 : more, body)))
}

/** The command by which a socket says what it is. */
export function ready(socketType: string): Uint8Array {
  const name = 'Socket-Type'
  const body = Buffer.alloc(6 + 1 + name.length + 4 + socketType.length)
  body.write('\x05READY', 0, 'latin1')
  body.writeUInt8(name.length, 6)
  body.write(name, 7, 'latin1')
  body.writeUInt32BE(socketType.length, 7 + name.length)
  body.write(socketType, 11 + name.length, 'latin1')
  return frame(command, body)
}

/** Subscribes to topics that begin so; empty: to all. */
export const subscription = (topic: string) => message(Buffer.from(`\x01${topic}`))

export interface ZmtpHandler {
  /** The peer has said what it is, so that messages may follow. */
  readonly onReady: () => void
  readonly onMessage: (frames: readonly Uint8Array[]) => void
  /** What the peer must be sent. */
  readonly answer: (bytes: Uint8Array) => void
}

/** Reads what a peer sends, piece by piece. `push` throws `ZmtpFault`; then the connection is of no use any more. */
export class ZmtpReader {
  private pieces: Uint8Array[] = []
  private held = 0
  /** So many bytes make the next step possible. */
  private wanted = greetingBytes
  private greeted = false
  private frames: Uint8Array[] = []
  private frameBytes = 0

  constructor(private readonly handler: ZmtpHandler) {}

  push(piece: Uint8Array): void {
    if (!this.greeted && this.held === 0 && piece.length > 0 && piece[0] !== 0xff) throw new ZmtpFault('no ZMTP')
    // A copy: the socket may use its buffer again.
    this.pieces.push(piece.slice())
    this.held += piece.length
    if (this.held < this.wanted) return
    let rest: Uint8Array = Buffer.concat(this.pieces)
    while (rest.length >= this.wanted) rest = rest.subarray(this.greeted ? this.frame(rest) : this.greet(rest))
    this.pieces = rest.length === 0 ? [] : [rest]
    this.held = rest.length
  }

  /** Bytes that were read. */
  private greet(bytes: Uint8Array): number {
    const mechanism = Buffer.from(bytes.subarray(12, 32)).toString('latin1').replace(/\0+$/, '')
    if (bytes[9] !== 0x7f || (bytes[10] ?? 0) < 3) throw new ZmtpFault('an older ZMTP')
    if (mechanism !== 'NULL') throw new ZmtpFault('another mechanism')
    this.greeted = true
    this.wanted = headBytes
    return greetingBytes
  }

  /** The same; 0: it has only said how many it wants. */
  private frame(bytes: Uint8Array): number {
    const flags = bytes[0] ?? 0
    const head = (flags & long) === 0 ? headBytes : longHeadBytes
    if (bytes.length < head) return this.want(head)
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
    const size = head === headBytes ? view.getUint8(1) : Number(view.getBigUint64(1))
    const isCommand = (flags & command) !== 0
    if (size > (isCommand ? commandBytesMax : frameBytesMax)) throw new ZmtpFault('too long')
    if (bytes.length < head + size) return this.want(head + size)
    const body = bytes.subarray(head, head + size)
    this.wanted = headBytes
    if (isCommand) this.command(body)
    else this.part(body, (flags & more) !== 0)
    return head + size
  }

  private want(bytes: number): 0 {
    this.wanted = bytes
    return 0
  }

  private command(body: Uint8Array): void {
    const length = body[0] ?? 0
    const name = Buffer.from(body.subarray(1, 1 + length)).toString('latin1')
    if (name === 'READY') this.handler.onReady()
    else if (name === 'ERROR') throw new ZmtpFault('refused')
    // After its name and two bytes of time to live: a context that comes back.
    else if (name === 'PING') {
      this.handler.answer(frame(command, Buffer.concat([Buffer.from('\x04PONG', 'latin1'), body.subarray(7)])))
    }
  }

  private part(body: Uint8Array, hasMore: boolean): void {
    this.frames.push(body.slice())
    this.frameBytes += body.length
    if (this.frames.length > framesMax || this.frameBytes > frameBytesMax) throw new ZmtpFault('too long')
    if (hasMore) return
    const { frames } = this
    this.frames = []
    this.frameBytes = 0
    this.handler.onMessage(frames)
  }
}
