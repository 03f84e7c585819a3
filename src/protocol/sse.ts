/** Headers of every event stream we send (decisions §6). */
export const eventStreamHeaders = {
  'content-type': 'text/event-stream; charset=utf-8',
  'cache-control': 'no-cache, no-transform',
  'x-accel-buffering': 'no',
} as const

/** No event of a node may be larger; beyond it the stream counts as broken. */
export const eventBytesMax = 8 * 1024 * 1024

/** What stands between events of a node's stream: its data, or a line `error: …` (some servers write that). */
export interface SseSink {
  data(payload: string): void
  errorLine(payload: string): void
}

const newline = 10
const empty = new Uint8Array(0)

/**
 * Splits a node's byte stream into events. Comments and the fields `event`, `id` and `retry` are passed over; LF and
 * CRLF both end a line; several `data` lines of one event are joined (WHATWG HTML, server-sent events).
 */
export class SseSplitter {
  private rest: Uint8Array = empty
  private pending: string | null = null

  constructor(private readonly sink: SseSink) {}

  /** False when an event grew beyond `eventBytesMax`; the stream is then unusable. */
  push(bytes: Uint8Array): boolean {
    const cut = bytes.lastIndexOf(newline)
    if (cut === -1) {
      this.rest = this.rest.length === 0 ? bytes.slice() : Buffer.concat([this.rest, bytes])
      return this.rest.length <= eventBytesMax
    }
    // Cutting at a line feed keeps UTF-8 sequences whole, so that each part can be decoded by itself.
    const head = bytes.subarray(0, cut + 1)
    const whole = this.rest.length === 0 ? head : Buffer.concat([this.rest, head])
    this.rest = cut + 1 === bytes.length ? empty : bytes.slice(cut + 1)
    this.lines(Buffer.from(whole.buffer, whole.byteOffset, whole.length).toString('utf8'))
    return (this.pending?.length ?? 0) <= eventBytesMax
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
      if (this.pending === null) return
      const payload = this.pending
      this.pending = null
      this.sink.data(payload)
    } else if (text.startsWith('data:', from)) {
      const payload = text.slice(text.charCodeAt(from + 5) === 32 ? from + 6 : from + 5, to)
      this.pending = this.pending === null ? payload : `${this.pending}\n${payload}`
    } else if (text.startsWith('error:', from)) {
      this.sink.errorLine(text.slice(from + 6, to).trim())
    }
  }

  /** The stream ended: an event that lacks its blank line still counts. */
  end(): void {
    if (this.rest.length > 0) this.push(Uint8Array.of(newline))
    this.line('', 0, 0)
  }
}
