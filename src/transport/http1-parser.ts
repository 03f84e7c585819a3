/** What a response parser tells, in this order: one head, any number of bodies, one end. */
export interface ResponseSink {
  head(status: number, headers: ReadonlyMap<string, string>): void
  body(bytes: Buffer): void
  /** `reusable`: the connection may carry another request. */
  end(reusable: boolean): void
}

/** The bytes are no HTTP/1.1 response; the connection is of no further use. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

/** Status line and headers together, bytes. */
export const headBytesMax = 64 * 1024
const sizeLineLengthMax = 256

type Phase = 'head' | 'sized' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'until-close' | 'done'

const lf = 10
const cr = 13
/** Hex digits of a chunk's size; more would be no size that can be meant. */
const sizeDigitsMax = 12
const none = Buffer.alloc(0)
const headEnd = Buffer.from('\r\n\r\n')

function parseHead(text: string): Head {
  const lines = text.split(/\r?\n/)
  const status = /^HTTP\/(1\.[01]) ([1-5][0-9]{2})(?: |$)/.exec(lines[0] ?? '')
  if (status === null) throw new MalformedResponse('status line')
  const headers = new Map<string, string>()
  for (let i = 1; i < lines.length; i++) {
    const line = lines[i] ?? ''
    if (line === '') continue
    const colon = line.indexOf(':')
    if (colon < 1 || /\s/.test(line.slice(0, colon))) throw new MalformedResponse('header')
    const name = line.slice(0, colon).toLowerCase()
    const value = line.slice(colon + 1).trim()
    const known = headers.get(name)
    headers.set(name, known === undefined ? value : `${known}, ${value}`)
  }
  return { status: Number(status[2]), version: status[1] ?? '', headers }
}

/** The hex digits at the start of a size line; what follows a `;` or a blank is an extension and means nothing here. */
function chunkSize(input: Buffer, from: number, to: number): number {
  let size = 0
  let at = from
  for (; at < to; at++) {
    const byte = input[at] ?? 0
    const value = byte <= 57 ? byte - 48 : (byte | 32) - 87
    if (value < 0 || value > 15 || (byte > 57 && value < 10)) break
    size = size * 16 + value
  }
  const next = at < to ? input[at] : undefined
  const ended = next === undefined || next === 59 || next === 32 || next === 9
  if (at === from || at - from > sizeDigitsMax || !ended) throw new MalformedResponse('chunk size')
  return size
}

interface Head {
  readonly status: number
  readonly version: string
  readonly headers: ReadonlyMap<string, string>
}

/** A node's heads differ in little but date and length: the last one, kept with its bytes, often fits again. */
class HeadReader {
  private bytes: Buffer = none
  private head: Head | null = null

  read(input: Buffer, from: number, to: number): Head {
    const { bytes } = this
    if (this.head !== null && input.compare(bytes, 0, bytes.length, from, to) === 0) return this.head
    this.head = parseHead(input.toString('latin1', from, to))
    this.bytes = Buffer.from(input.subarray(from, to))
    return this.head
  }
}

/**
 * Reads responses to GET and POST from the bytes of one connection (RFC 9112): Content-Length, chunked, or until the
 * connection closes. Interim responses (1xx) are passed over. Bodies that arrive together are handed on together.
 */
export class ResponseParser {
  private phase: Phase = 'head'
  private rest: Buffer = none
  private left = 0
  private keepAlive = false
  private pieces: Buffer[] = []
  private readonly heads = new HeadReader()

  constructor(private readonly sink: ResponseSink) {}

  /** Between two responses: bytes that come now belong to nobody. */
  get idle(): boolean {
    return this.phase === 'head' && this.rest.length === 0
  }

  /** Throws `MalformedResponse`. Reads by position: a view for every line would cost more than the reading. */
  push(bytes: Buffer): void {
    const input = this.rest.length === 0 ? bytes : Buffer.concat([this.rest, bytes])
    this.rest = none
    for (let at = 0; at < input.length; ) {
      const next = this.step(input, at)
      if (next === at) {
        this.rest = input.subarray(at)
        break
      }
      at = next
    }
    this.flush()
  }

  /** The connection was closed by the node. True: that ended a response as it may. */
  close(): boolean {
    if (this.phase !== 'until-close') return false
    this.finish(false)
    return true
  }

  /** The position after what could be read at `at`; the same one when more bytes are needed. */
  private step(input: Buffer, at: number): number {
    switch (this.phase) {
      case 'head':
        return this.head(input, at)
      case 'sized':
      case 'chunk-data':
        return this.data(input, at)
      case 'until-close':
        this.pieces.push(at === 0 ? input : input.subarray(at))
        return input.length
      case 'done':
        throw new MalformedResponse('bytes after the end')
      default:
        return this.line(input, at)
    }
  }

  private head(input: Buffer, at: number): number {
    const end = input.indexOf(headEnd, at)
    if (end === -1) {
      if (input.length - at > headBytesMax) throw new MalformedResponse('head too large')
      return at
    }
    const { status, version, headers } = this.heads.read(input, at, end)
    const next = end + headEnd.length
    if (status < 200) {
      if (status === 101) throw new MalformedResponse('upgrade')
      return next
    }
    const connection = headers.get('connection')?.toLowerCase() ?? ''
    this.keepAlive = version === '1.1' ? !connection.includes('close') : connection.includes('keep-alive')
    this.sink.head(status, headers)
    this.frame(status, headers)
    return next
  }

  private frame(status: number, headers: ReadonlyMap<string, string>): void {
    const coding = headers.get('transfer-encoding')?.toLowerCase()
    const length = headers.get('content-length')
    if (status === 204 || status === 304) this.finish(this.keepAlive)
    else if (coding !== undefined) {
      if (coding !== 'chunked') throw new MalformedResponse('transfer coding')
      // Both framings at once is how responses are smuggled: read it, then drop the connection (RFC 9112 §6.3).
      if (length !== undefined) this.keepAlive = false
      this.phase = 'chunk-size'
    } else if (length !== undefined) {
      if (!/^[0-9]{1,15}$/.test(length)) throw new MalformedResponse('content length')
      this.left = Number(length)
      this.phase = 'sized'
      if (this.left === 0) this.finish(this.keepAlive)
    } else this.phase = 'until-close'
  }

  private data(input: Buffer, at: number): number {
    const size = Math.min(this.left, input.length - at)
    this.pieces.push(size === input.length ? input : input.subarray(at, at + size))
    this.left -= size
    if (this.left === 0) {
      if (this.phase === 'sized') this.finish(this.keepAlive)
      else this.phase = 'chunk-end'
    }
    return at + size
  }

  /** The lines of the chunked coding: a size, the empty one after the data, trailers. Two of them frame every chunk. */
  private line(input: Buffer, at: number): number {
    const end = input.indexOf(lf, at)
    if (end === -1) {
      if (input.length - at > sizeLineLengthMax) throw new MalformedResponse('chunk line')
      return at
    }
    const to = end > at && input[end - 1] === cr ? end - 1 : end
    if (this.phase === 'chunk-end') {
      if (to !== at) throw new MalformedResponse('chunk end')
      this.phase = 'chunk-size'
    } else if (this.phase === 'trailers') {
      if (to === at) this.finish(this.keepAlive)
    } else {
      this.left = chunkSize(input, at, to)
      this.phase = this.left === 0 ? 'trailers' : 'chunk-data'
    }
    return end + 1
  }

  private flush(): void {
    const { pieces } = this
    const [first] = pieces
    if (first === undefined) return
    this.pieces = []
    this.sink.body(pieces.length === 1 ? first : Buffer.concat(pieces))
  }

  private finish(reusable: boolean): void {
    this.flush()
    this.phase = reusable ? 'head' : 'done'
    this.sink.end(reusable)
  }
}
