import { isEvents, isJson, mayFail } from './passed-answer.ts'

/** An error in place of an answer is short: at most this much is held until the two can be distinguished, bytes. */
const heldBytesMax = 64 * 1024
/** Where an event ends, and what stands behind it belongs to the next. */
const eventEnd = /\n\r?\n|\r\r/g
/** How many earlier bytes may belong to the end of an event. */
const seamBytes = 2
/** Lines of events other than data: comments, names and ids. */
const besideData = /^(?!data:).+$/gm

const nothing = Buffer.alloc(0)

/**
 * Holds bytes of a node on their way to a client until they can be judged: a whole body of JSON, whole events. A client
 * can use neither sooner, so this delays no one. Larger bodies, and bodies that are not text, pass unheld.
 */
export class HeldWords {
  private readonly held: Buffer[] = []
  private heldBytes = 0
  /** The last bytes that are held. */
  private seam = ''
  private readonly holds: boolean
  private readonly events: boolean

  constructor(
    contentType: string,
    private readonly strike: (text: string) => string,
  ) {
    this.events = isEvents(contentType)
    this.holds = this.events || isJson(contentType)
  }

  /** The bytes that may go to the client now, including held ones. */
  push(chunk: Buffer): Buffer {
    if (!this.holds) return chunk
    this.held.push(chunk)
    this.heldBytes += chunk.length
    if (this.heldBytes > heldBytesMax) return this.end()
    return this.events && this.endsEvent(chunk) ? this.wholeEvents() : nothing
  }

  /** Looks at each byte once, in however many pieces an event comes. */
  private endsEvent(chunk: Buffer): boolean {
    const text = this.seam + chunk.toString('latin1')
    this.seam = text.slice(-seamBytes)
    return text.search(eventEnd) !== -1
  }

  /** All that is held. */
  end(): Buffer {
    const all = this.taken()
    return this.holds && all.length > 0 ? this.clean(all) : all
  }

  private taken(): Buffer {
    const [first = nothing, ...more] = this.held
    const all = more.length === 0 ? first : Buffer.concat([first, ...more])
    this.held.length = 0
    this.heldBytes = 0
    this.seam = ''
    return all
  }

  private wholeEvents(): Buffer {
    const all = this.taken()
    let end = 0
    for (const { index, 0: found } of all.toString('latin1').matchAll(eventEnd)) end = index + found.length
    const rest = all.subarray(end)
    if (rest.length > 0) this.held.push(rest)
    this.heldBytes = rest.length
    this.seam = rest.toString('latin1').slice(-seamBytes)
    return end === 0 ? nothing : this.clean(all.subarray(0, end))
  }

  /** Byte for byte, but without the node's confidential values. */
  private clean(bytes: Buffer): Buffer {
    const text = bytes.toString('latin1')
    const clean = mayFail(text) ? this.strike(text) : this.events ? text.replace(besideData, this.strike) : text
    return clean === text ? bytes : Buffer.from(clean, 'latin1')
  }
}
