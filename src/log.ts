import { Alarm } from './clock.ts'
import { CountedLines } from './counted-lines.ts'
import { isoTime } from './time.ts'

export type LogLevel = 'debug' | 'info' | 'warn' | 'error'
export type LogFields = Readonly<Record<string, string | number | boolean | null | undefined>>

/** JSON lines (§18). Fields are codes, ids, counts and times: never a body, a header, a token or an address. */
export interface Log {
  /** `event` is one of our own words and never a caller's text. */
  debug(event: string, fields?: LogFields): void
  info(event: string, fields?: LogFields): void
  warn(event: string, fields?: LogFields): void
  error(event: string, fields?: LogFields): void
  /** The same for fields that are JSON already: the text of an object. */
  written(level: LogLevel, event: string, object: string): void
  /** The same for lines that strangers can cause: of each `kind`, one of our own words, one a second, with a count. */
  counted(kind: string, level: LogLevel, event: string, object: string): void
  /** Writes the buffered lines. Call it before the process ends. */
  flush(): void
}

const ranks = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const
/** Lines wait this long, or until they are this many bytes: one write per request would cost more than the request's own work. */
const flushAfterMs = 100
const flushAtBytes = 32 * 1024
/** A line that could be longer is written by itself. */
const roomBytes = 4 * flushAtBytes
const utf8BytesPerUnitMax = 3
const comma = ','.charCodeAt(0)
const lineEnd = '\n'.charCodeAt(0)
const emptyObject = '{}'

/** `always`: fields of every line. */
export function createLog(level: LogLevel | 'silent', write: (text: string) => void, always: LogFields = {}): Log {
  const common = JSON.stringify(always).slice(1, -1)
  const alike = common === '' ? '' : `,${common}`
  // Bytes: a text that grows line by line keeps each of its pieces as an object until it is written.
  const room = Buffer.allocUnsafeSlow(roomBytes)
  let used = 0
  const send = () => {
    sending.clear()
    if (used === 0) return
    const text = room.utf8Slice(0, used)
    used = 0
    write(text)
  }
  const sending = new Alarm(send)
  const add = (text: string) => {
    used += room.utf8Write(text, used)
  }
  // Most lines are of requests, and begin alike but for the time.
  let last = { rank: level as string, event: '', text: '' }
  const behindTime = (rank: LogLevel, event: string): string => {
    if (last.rank !== rank || last.event !== event) {
      last = { rank, event, text: `","level":"${rank}","event":"${event}"${alike}` }
    }
    return last.text
  }
  const written = (rank: LogLevel, event: string, object: string) => {
    if (ranks[rank] < ranks[level]) return
    const head = `{"ts":"${isoTime(Date.now())}${behindTime(rank, event)}`
    const more = object !== emptyObject
    const bytesMost = (head.length + object.length + 1) * utf8BytesPerUnitMax
    if (used + bytesMost > roomBytes) send()
    if (bytesMost > roomBytes) return write(`${head}${more ? `,${object.slice(1)}` : '}'}\n`)
    add(head)
    const at = used
    add(more ? object : '}')
    // Its members follow those of the head.
    if (more) room[at] = comma
    room[used++] = lineEnd
    if (used >= flushAtBytes || ranks[rank] >= ranks.error) return send()
    if (!sending.isSet) sending.set(flushAfterMs)
  }
  const at = (rank: LogLevel) => (event: string, fields?: LogFields) => {
    if (ranks[rank] >= ranks[level]) written(rank, event, fields === undefined ? emptyObject : JSON.stringify(fields))
  }
  const many = new CountedLines(written)
  const counted = (kind: string, rank: LogLevel, event: string, object: string) => {
    if (ranks[rank] >= ranks[level]) many.add(kind, { level: rank, event, object })
  }
  const flush = () => {
    many.flush()
    send()
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), written, counted, flush }
}

/** The class of a failure for a log line: a code or a name, never a message (drivers put parameters into messages). */
export function failureName(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const cause = error.cause instanceof Error ? error.cause : error
  const code = (cause as { code?: unknown }).code
  return typeof code === 'string' ? code : cause.name
}
