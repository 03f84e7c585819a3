const none = Buffer.alloc(0)

/** The bytes are no HTTP/1.1 response; the connection is of no further use. */
export class MalformedResponse extends Error {
  override readonly name = 'MalformedResponse'
}

/** A head that is longer is not kept for comparison with the next one, bytes. */
const headKeptBytesMax = 2 * 1024

/** Where in a response its reader is: behind a head, what its body begins with. */
export type Phase = 'head' | 'sized' | 'chunk-size' | 'chunk-data' | 'chunk-end' | 'trailers' | 'until-close' | 'over'

/** Of one head; by lower-case name. */
export class HeadFields {
  constructor(private readonly values: ReadonlyMap<string, string>) {}
  get(name: string): string | null {
    return this.values.get(name) ?? null
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
  const length = headers.get('content-length')
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

/**
 * A node's heads differ in little but date and length: the last one, kept with its bytes, often fits again. One for all
 * connections of a node: each open stream would else keep a head of its own.
 */
export class HeadReader {
  private bytes: Buffer = none
  private head: Head | null = null

  read(input: Buffer, from: number, to: number): Head {
    const { bytes } = this
    if (this.head !== null && input.compare(bytes, 0, bytes.length, from, to) === 0) return this.head
    const head = parseHead(input.toString('latin1', from, to))
    if (to - from > headKeptBytesMax) return head
    this.head = head
    this.bytes = Buffer.from(input.subarray(from, to))
    return head
  }
}
