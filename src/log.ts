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
  /** The same for fields that are JSON already: members of an object, each with a comma before it. */
  written(level: LogLevel, event: string, members: string): void
  /** Writes the buffered lines. Call it before the process ends. */
  flush(): void
}

const ranks = { debug: 0, info: 1, warn: 2, error: 3, silent: 4 } as const
/** Lines wait this long, or until this many characters: one write per request would cost more than the request's own work. */
const flushAfterMs = 100
const flushAtChars = 32 * 1024

function membersOf(fields: LogFields): string {
  const members = JSON.stringify(fields).slice(1, -1)
  return members === '' ? '' : `,${members}`
}

/** `always`: fields of every line. */
export function createLog(level: LogLevel | 'silent', write: (text: string) => void, always: LogFields = {}): Log {
  const common = membersOf(always)
  let buffer = ''
  let timer: ReturnType<typeof setTimeout> | null = null
  const flush = () => {
    if (timer !== null) clearTimeout(timer)
    timer = null
    if (buffer === '') return
    const text = buffer
    buffer = ''
    write(text)
  }
  const written = (rank: LogLevel, event: string, members: string) => {
    if (ranks[rank] < ranks[level]) return
    buffer += `{"ts":"${isoTime(Date.now())}","level":"${rank}","event":"${event}"${common}${members}}\n`
    if (buffer.length >= flushAtChars || ranks[rank] >= ranks.error) return flush()
    timer ??= setTimeout(flush, flushAfterMs)
  }
  const at = (rank: LogLevel) => (event: string, fields?: LogFields) => {
    if (ranks[rank] < ranks[level]) return
    written(rank, event, fields === undefined ? '' : membersOf(fields))
  }
  return { debug: at('debug'), info: at('info'), warn: at('warn'), error: at('error'), written, flush }
}

/** The class of a failure for a log line: a code or a name, never a message (drivers put parameters into messages). */
export function failureName(error: unknown): string {
  if (!(error instanceof Error)) return typeof error
  const cause = error.cause instanceof Error ? error.cause : error
  const code = (cause as { code?: unknown }).code
  return typeof code === 'string' ? code : cause.name
}
