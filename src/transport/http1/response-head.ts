const none = Buffer.alloc(0)

/** The bytes are no HTTP/1.1 response; the connection is of no further use. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

const lengthName = 'content-length'
const lengthLine = /\ncontent-length:[ \t]*([1-9][0-9]{0,14})[ \t]*(?=\r?\n|$)/i
const lengthDigitsMax = 15
const digitZero = 48

/** A head that is longer is not kept for comparison with the next one, bytes. */
const headKeptBytesMax = 2 * 1024

/** Where in a response its reader is: behind a head, what its body begins with. */
export type Phase = 'head' | 'sized' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'until-close' | 'over'

/** Of one head; by lower-case name. */
export class HeadFields {
  /** `sized`: the content length, in the place of the one among the values. */
  constructor(
    private readonly values: ReadonlyMap<string, string>,
    private readonly sized: number | null = null,
  ) {}

  get(name: string): string | null {
    return this.sized !== null && name === lengthName ? String(this.sized) : (this.values.get(name) ?? null)
  }

  /** The same with another content length. */
  ofLength(length: number): HeadFields {
    return new HeadFields(this.values, length)
  }
}

/** How the body behind a head is told from what follows. */
interface Framing {
  readonly keepAlive: boolean
  readonly phase: Phase
  /** Of a sized body, bytes. */
  readonly length: number
  /** Why the end of the body is unknown; the status holds all the same. */
  readonly fault: string | null
}

export interface Head extends Framing {
  readonly status: number
  readonly headers: HeadFields
}

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
  const fields = new HeadFields(headers)
  return { status: Number(status[2]), headers: fields, ...framingOf(Number(status[2]), status[1] === '1.1', fields) }
}

function framingOf(status: number, isNew: boolean, headers: HeadFields): Framing {
  const connection = headers.get('connection')?.toLowerCase() ?? ''
  const keepAlive = isNew ? !connection.includes('close') : connection.includes('keep-alive')
  const coding = headers.get('transfer-encoding')?.toLowerCase() ?? null
  const length = headers.get(lengthName)
  const framed = (phase: Phase, size = 0, fault: string | null = null) => ({ keepAlive, phase, length: size, fault })
  if (status < 200 || status === 204 || status === 304) return framed('over')
  if (coding !== null) {
    if (coding !== 'chunked') return framed('over', 0, 'transfer coding')
    // Both framings at once is how responses are smuggled: read it, then drop the connection (RFC 9112 §6.3).
    return { ...framed('chunk-size'), keepAlive: keepAlive && length === null }
  }
  if (length === null) return framed('until-close')
  if (!/^[0-9]{1,15}$/.test(length)) return framed('over', 0, 'content length')
  return framed(Number(length) === 0 ? 'over' : 'sized', Number(length))
}

/** A head of which nothing but the length of its body varies, as its bytes: all that comes before the length, and all that follows it. */
class SizedHead {
  private constructor(
    private readonly head: Head,
    private readonly before: Buffer,
    private readonly after: Buffer,
  ) {}

  /** null: it has no length, or its place is not certain. */
  static of(text: string, head: Head): SizedHead | null {
    const found = head.phase === 'sized' ? lengthLine.exec(text) : null
    const digits = found?.[1]
    if (found === null || digits === undefined || digits !== head.headers.get(lengthName)) return null
    const at = text.indexOf(digits, found.index)
    return new SizedHead(head, latin1(text.slice(0, at)), latin1(text.slice(at + digits.length)))
  }

  /** null: it is not such a head. */
  read(input: Buffer, from: number, to: number): Head | null {
    const { before, after, head } = this
    const end = to - after.length
    let at = from + before.length
    if (end <= at || end - at > lengthDigitsMax || input[at] === digitZero) return null
    if (input.compare(before, 0, before.length, from, at) !== 0) return null
    if (input.compare(after, 0, after.length, end, to) !== 0) return null
    let length = 0
    for (; at < end; at++) {
      const digit = (input[at] as number) - digitZero
      if (digit < 0 || digit > 9) return null
      length = 10 * length + digit
    }
    if (length === head.length) return head
    const { status, keepAlive, phase, fault } = head
    return { status, headers: head.headers.ofLength(length), keepAlive, phase, length, fault }
  }
}

const latin1 = (text: string) => Buffer.from(text, 'latin1')

/**
 * A node's heads differ in little but date and length: the last one, kept with its bytes, often fits again, by itself or with
 * another length. Nothing else is decided by bytes; any other head is parsed. One for all connections of a node: each open stream would
 * else keep a head of its own.
 */
export class HeadReader {
  private bytes: Buffer = none
  private head: Head | null = null
  private sized: SizedHead | null = null

  read(input: Buffer, from: number, to: number): Head {
    const { bytes } = this
    if (this.head !== null && input.compare(bytes, 0, bytes.length, from, to) === 0) return this.head
    const sized = this.sized?.read(input, from, to) ?? null
    if (sized !== null) return sized
    const text = input.toString('latin1', from, to)
    const head = parseHead(text)
    if (to - from > headKeptBytesMax) return head
    const learnt = SizedHead.of(text, head)
    if (learnt !== null) {
      this.sized = learnt
      return head
    }
    this.head = head
    this.bytes = Buffer.from(input.subarray(from, to))
    return head
  }
}
