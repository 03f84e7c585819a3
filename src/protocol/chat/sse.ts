import { textBytes } from '../../host/budget.ts'

/** Headers of every event stream we send (§6). */
export const eventStreamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
} as const

/** No event of a node may be larger; beyond it the stream counts as broken. */
export const eventBytesMax = 8 * 1024 * 1024

/** Lines of `data` in one event: JSON that is written for people has some hundreds. */
const eventLinesMax = 10_000

/** What stands between events of a node's stream: its data, or a line `error: …` (some servers write that). */
export interface SseSink {
  data(payload: string): void
  errorLine(payload: string): void
}

const newline = 10
const empty = Buffer.alloc(0)

/**
 * Splits a node's byte stream into events. Comments and the fields `event`, `id` and `retry` are passed over; LF and
 * CRLF both end a line; several `data` lines of one event are joined (WHATWG HTML, server-sent events).
 */
export class SseSplitter {
  /** The first `restBytes` of it are a line without its end. */
  private rest: Buffer = empty
  private restBytes = 0
  private pending: string | null = null
  private pendingLines = 0

  constructor(private readonly sink: SseSink) {}

  /** Of an event that has not ended: its bytes, and its lines as text. */
  get keptBytes(): number {
    return this.rest.length + textBytes(this.pending?.length ?? 0)
  }

  /** The next byte begins an event. */
  get isBetweenEvents(): boolean {
    return this.restBytes === 0 && this.pending === null
  }

  /**
   * Reads the bytes of `chunk` between `from` and `to`. False when an event grew beyond `eventBytesMax` or
   * `eventLinesMax`; the stream is then unusable.
   */
  push(chunk: Uint8Array, from = 0, to = chunk.length): boolean {
    const bytes = Buffer.isBuffer(chunk) ? chunk : Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length)
    const cut = to > from ? Math.max(from, bytes.lastIndexOf(newline, to - 1) + 1) : from
    if (cut > from) this.lines(this.withRest(bytes, from, cut))
    if (cut < to) this.keep(bytes, cut, to)
    return this.restBytes + (this.pending?.length ?? 0) <= eventBytesMax && this.pendingLines <= eventLinesMax
  }

  /** Cutting at a line feed keeps UTF-8 sequences whole, so that each part can be decoded by itself. */
  private withRest(bytes: Buffer, from: number, cut: number): string {
    if (this.restBytes === 0) return bytes.toString('utf8', from, cut)
    this.keep(bytes, from, cut)
    const text = this.rest.toString('utf8', 0, this.restBytes)
    this.rest = empty
    this.restBytes = 0
    return text
  }

  /**
   * A copy, because kept bytes must not keep the whole read alive. The buffer is doubled, so that a line in many pieces
   * is copied twice at most.
   */
  private keep(bytes: Buffer, from: number, to: number): void {
    const size = this.restBytes + to - from
    if (size > this.rest.length) {
      const wider = Buffer.allocUnsafe(this.restBytes === 0 ? size : 2 * size)
      this.rest.copy(wider, 0, 0, this.restBytes)
      this.rest = wider
    }
    bytes.copy(this.rest, this.restBytes, from, to)
    this.restBytes = size
  }

  private lines(text: string): void {
    let from = 0
    for (let end = text.indexOf('\n'); end !== -1; end = text.indexOf('\n', from)) {
      const to = end > from && text.charCodeAt(end - 1) === 13 ? end - 1 : end
      this.line(text, from, to)
      from = end + 1
    }
  }

  private line(text: string, from: number, to: number): void {
    if (from === to) {
      if (this.pending === null || this.pendingLines > eventLinesMax) return
      const payload = this.pending
      this.pending = null
      this.pendingLines = 0
      this.sink.data(payload)
    } else if (text.startsWith('data:', from)) {
      if (++this.pendingLines > eventLinesMax) return
      const payload = text.slice(text.charCodeAt(from + 5) === 32 ? from + 6 : from + 5, to)
      this.pending = this.pending === null ? payload : `${this.pending}\n${payload}`
    } else if (text.startsWith('error:', from)) {
      this.sink.errorLine(text.slice(from + 6, to).trim())
    }
  }

  /** The stream ended: an event that lacks its blank line still counts. */
  end(): void {
    if (this.restBytes > 0) this.push(Buffer.of(newline))
    this.line('', 0, 0)
  }
}

/** 1: printable ASCII that JSON does not escape, as most tokens are. */
const isPlain = new Uint8Array(256).fill(1, 0x20, 0x7f)
isPlain[0x22] = 0
isPlain[0x5c] = 0

/** An event of a node's stream whose one text varies, as its bytes: all that comes before the text, and all that follows it. */
export class LearntEvent {
  private readonly before: Buffer
  private readonly after: Buffer

  /** `prefix`, `suffix`: of its data. */
  constructor(prefix: string, suffix: string) {
    this.before = Buffer.from(`data: ${prefix}`)
    this.after = Buffer.from(`${suffix}\n\n`)
  }

  /** Where the text begins in an event at `at`. */
  textAt(at: number): number {
    return at + this.before.length
  }

  /** Where the event ends whose text ends at `textEnd`. */
  endAt(textEnd: number): number {
    return textEnd + this.after.length
  }

  /** Where the text ends in the event at `at` of `input`; -1: no such event is whole before `to`, or its text is not plain ASCII. */
  textEnd(input: Buffer, at: number, to: number): number {
    const { before, after } = this
    const last = to - after.length
    let end = at + before.length
    if (end > last || input.compare(before, 0, before.length, at, end) !== 0) return -1
    while (end <= last && isPlain[input[end] as number] === 1) end++
    return end <= last && input.compare(after, 0, after.length, end, end + after.length) === 0 ? end : -1
  }
}
