/** Lines after which an event stream is over, whatever the dialect; an error ends it, too. */
const lastLines = [
  'data: [DONE]',
  'event: message_stop',
  'event: response.completed',
  'event: response.incomplete',
  'event: response.failed',
  'event: error',
  'data: {"error":',
] as const
/** In an event of chat or completions that ends with an error. Inside of a text its quotation marks would be escaped. */
const failure = '"usage":false,"error":{'
/** No line of interest is longer; of a longer one only its beginning is looked at. */
const keptUnits = 64

/**
 * Whether an answer came to its own end. EHBP has no last frame: a relay can cut the answer off between two frames, which only
 * the answer's own form shows.
 */
export class AnswerEnd {
  private readonly decoder = new TextDecoder()
  private readonly events: boolean
  private line = ''
  private done = false
  private last = ''

  constructor(contentType: string) {
    this.events = contentType.startsWith('text/event-stream')
  }

  onBytes(bytes: Uint8Array): void {
    const text = this.decoder.decode(bytes, { stream: true })
    if (!this.events) {
      this.last = (this.last + text).trimEnd().slice(-1)
      return
    }
    this.done ||= text.includes(failure)
    const lines = text.split('\n')
    for (const [at, part] of lines.entries()) {
      if (at > 0) {
        this.ended(this.line)
        this.line = ''
      }
      if (this.line.length < keptUnits) this.line += part.slice(0, keptUnits)
    }
  }

  private ended(line: string): void {
    this.done ||= lastLines.some((last) => line.startsWith(last))
  }

  /** JSON ends with a brace, an event stream with its own last event. */
  get isWhole(): boolean {
    return this.events ? this.done : this.last === '}'
  }
}
