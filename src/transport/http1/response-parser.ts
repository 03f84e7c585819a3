import { viewOf } from '../transport.ts'
import { type HeadFields, HeadReader, MalformedResponse, type Phase } from './response-head.ts'
import { Unread } from './unread.ts'

/** What a response parser tells, in this order: one head, any number of parts of the body, one end. */
export interface ResponseSink {
  head(status: number, headers: HeadFields): void
  /** Of the body, the bytes of `input` from `from` to `to`. */
  part(input: Buffer, from: number, to: number): void
  /** Not before all that came with the answer was read. */
  end(next: AfterAnswer): void
}

/**
 * What may become of a connection behind its answer. `excess`: bytes came that belong to no request, so that whatever
 * follows could be the answer to another.
 */
export type AfterAnswer = 'reusable' | 'closing' | 'excess'

/** Status line and headers together, bytes. */
export const headBytesMax = 64 * 1024
/** Interim responses (1xx) before one answer. */
export const interimsMax = 16
/** All trailers of one answer together, bytes. */
export const trailerBytesMax = 16 * 1024
const sizeLineLengthMax = 256
const lf = 10
const cr = 13
/** Hex digits of a chunk's size; more would be no size that can be meant. */
const sizeDigitsMax = 12
const headEnd = Buffer.from('\r\n\r\n')

/** -1: it is no hex digit. */
function hexValue(byte: number): number {
  const value = byte <= 57 ? byte - 48 : (byte | 32) - 87
  return value < 0 || value > 15 || (byte > 57 && value < 10) ? -1 : value
}

/** The hex digits at the start of a size line; what follows a `;` or a blank is an extension and means nothing here. */
function chunkSize(input: Buffer, from: number, to: number): number {
  let size = 0
  let at = from
  for (; at < to; at++) {
    const value = hexValue(input[at] ?? 0)
    if (value === -1) break
    size = size * 16 + value
  }
  const next = at < to ? input[at] : undefined
  const ended = next === undefined || next === 59 || next === 32 || next === 9
  if (at === from || at - from > sizeDigitsMax || !ended) throw new MalformedResponse('chunk size')
  return size
}

/**
 * Reads responses to GET and POST from the bytes of one connection (RFC 9112): Content-Length, chunked, or until the
 * connection closes. Interim responses (1xx) are passed over. Bodies that arrive together are handed on together. What
 * stands behind a complete answer is never read as another one: `end` says that it was there.
 */
export class ResponseParser {
  private phase: Phase = 'head'
  private readonly unread = new Unread()
  /** Of the unread bytes, how many cannot begin the end of the head. */
  private searched = 0
  private left = 0
  private keepAlive = false
  private interims = 0
  private trailerBytes = 0
  /** Of the body, as they came since the last were handed on: the first, from and to where, and what follows it. */
  private input: Buffer | null = null
  private from = 0
  private to = 0
  private more: Buffer[] = []

  constructor(
    private readonly sink: ResponseSink,
    private readonly heads = new HeadReader(),
  ) {}

  /** Throws `MalformedResponse`. Reads by position: a view for every line would cost more than the reading. */
  push(bytes: Buffer): void {
    if (this.phase === 'chunk-size' && this.wholeChunk(bytes)) return
    const input = this.unread.with(bytes)
    let at = 0
    while (at < input.length && this.phase !== 'over') {
      const next = this.step(input, at)
      if (next === at) break
      at = next
    }
    if (this.phase === 'over') return this.finish(at < input.length ? 'excess' : 'reusable')
    this.unread.keep(input, at)
    this.flush()
  }

  /**
   * What a stream sends at a time mostly comes as one chunk of the chunked coding and nothing else. True: it did, and was handed on.
   * Nothing else is decided here: whatever is not just so is read as everything is.
   */
  private wholeChunk(bytes: Buffer): boolean {
    const last = bytes.length - 2
    let size = 0
    let at = 0
    for (; at < sizeDigitsMax && at < last; at++) {
      const value = hexValue(bytes[at] as number)
      if (value === -1) break
      size = size * 16 + value
    }
    const from = at + 2
    if (size === 0 || from + size !== last || !this.unread.empty) return false
    if (bytes[at] !== cr || bytes[at + 1] !== lf || bytes[last] !== cr || bytes[last + 1] !== lf) return false
    this.left = 0
    this.sink.part(bytes, from, last)
    return true
  }

  /** The connection was closed by the node. True: that ended a response as it may. */
  close(): boolean {
    if (this.phase !== 'until-close') return false
    this.finish('closing')
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
        this.add(input, at, input.length)
        return input.length
      default:
        return this.line(input, at)
    }
  }

  private head(input: Buffer, at: number): number {
    const end = input.indexOf(headEnd, Math.max(at, this.searched))
    if (end === -1) {
      if (input.length - at > headBytesMax) throw new MalformedResponse('head too large')
      this.searched = Math.max(0, input.length - at - headEnd.length + 1)
      return at
    }
    this.searched = 0
    if (end - at > headBytesMax) throw new MalformedResponse('head too large')
    const head = this.heads.read(input, at, end)
    const { status, headers } = head
    const next = end + headEnd.length
    if (status < 200) {
      if (status === 101) throw new MalformedResponse('upgrade')
      if (++this.interims > interimsMax) throw new MalformedResponse('interim responses')
      return next
    }
    this.keepAlive = head.keepAlive
    this.left = head.length
    this.sink.head(status, headers)
    if (head.fault !== null) throw new MalformedResponse(head.fault)
    this.phase = head.phase
    return next
  }

  private data(input: Buffer, at: number): number {
    const size = Math.min(this.left, input.length - at)
    this.add(input, at, at + size)
    this.left -= size
    if (this.left === 0) this.phase = this.phase === 'sized' ? 'over' : 'chunk-end'
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
      this.trailerBytes += end + 1 - at
      if (this.trailerBytes > trailerBytesMax) throw new MalformedResponse('trailers')
      if (to === at) this.phase = 'over'
    } else {
      this.left = chunkSize(input, at, to)
      this.phase = this.left === 0 ? 'trailers' : 'chunk-data'
    }
    return end + 1
  }

  private flush(): void {
    const { input, from, to, more } = this
    if (input === null) return
    this.input = null
    if (more.length === 0) return this.sink.part(input, from, to)
    this.more = []
    const whole = Buffer.concat([viewOf(input, from, to), ...more])
    this.sink.part(whole, 0, whole.length)
  }

  private add(input: Buffer, from: number, to: number): void {
    if (this.input !== null) return void this.more.push(viewOf(input, from, to))
    this.input = input
    this.from = from
    this.to = to
  }

  private finish(next: AfterAnswer): void {
    this.flush()
    this.phase = 'head'
    this.searched = 0
    this.interims = 0
    this.trailerBytes = 0
    this.unread.clear()
    this.sink.end(next === 'reusable' && !this.keepAlive ? 'closing' : next)
  }
}
