/**
 * The text of a backup: SQL that a person can read and `psql` can load into migrated tables, as `pg_dump --data-only`
 * writes it. The first line is a comment with the header, the last one with the number of rows of each table, so that a
 * text that was cut off is known as such.
 */
export const backupFormat = 'penstock-backup-v2'
/** The same text; the file around it carried no signature. */
export const formatBefore = 'penstock-backup-v1'

export interface AppliedMigration {
  /** Unix ms, by which the migrator orders them. */
  readonly created_at: number
  /** SHA-256 of its SQL, hexadecimal. */
  readonly hash: string
}

export interface BackupHeader {
  readonly format: typeof backupFormat | typeof formatBefore
  readonly created_at: string
  readonly program_version: string
  readonly migrations: readonly AppliedMigration[]
  /** By the names of their settings. Without them the keys and sealed secrets in the tables are useless. */
  readonly secrets: Readonly<Record<string, string>>
  /** `credentials.json` of an embedded gateway. */
  readonly credentials: Readonly<Record<string, string>> | null
}

/** The text says what is wrong with the file or the database, never what is in it. */
export class BackupError extends Error {
  override readonly name = 'BackupError'
}

export interface BackupTable {
  readonly name: string
  readonly columns: readonly string[]
}

const headerForm = /^-- (penstock-backup-v[0-9]{1,4}) /
export const endPrefix = '-- end '
const copyForm = /^COPY public\.("[a-z][a-z0-9_]*") \(((?:"[a-z][a-z0-9_]*"(?:, )?)+)\) FROM stdin;$/
const sequenceForm = /^SELECT pg_catalog\.setval\('public\."([a-z][a-z0-9_]*)"', ([0-9]{1,19}), (true|false)\);$/
/** The mark that ends the rows of a table. No row in COPY's text format can look like it. */
export const rowsEnd = '\\.\n'

const quoted = (name: string) => `"${name}"`
const unquoted = (name: string) => name.slice(1, -1)

export const headerLine = (header: BackupHeader) => `-- ${header.format} ${JSON.stringify(header)}\n`
export const copyLine = ({ name, columns }: BackupTable) =>
  `COPY public.${quoted(name)} (${columns.map(quoted).join(', ')}) FROM stdin;\n`
export const endLine = (rows: Readonly<Record<string, number>>) => `${endPrefix}${JSON.stringify(rows)}\n`

export interface SequenceValue {
  readonly name: string
  readonly value: string
  readonly isCalled: boolean
}

export const sequenceLine = ({ name, value, isCalled }: SequenceValue) =>
  `SELECT pg_catalog.setval('public.${quoted(name)}', ${value}, ${isCalled});\n`

export type BackupLine =
  | { readonly kind: 'table'; readonly table: BackupTable }
  | { readonly kind: 'sequence'; readonly sequence: SequenceValue }
  | { readonly kind: 'end'; readonly rows: Readonly<Record<string, number>> }

/** Whether this is the beginning of a backup, and of which format. Throws `BackupError` for all that cannot be read here. */
export function formatOf(beginning: string): BackupHeader['format'] {
  const format = headerForm.exec(beginning)?.[1]
  if (format === backupFormat || format === formatBefore) return format
  if (format === undefined) throw foreign()
  const version = format.replace(/^.*-/, '')
  throw new BackupError(
    `The backup has the format ${version}, which this version cannot read. Install a newer version.`,
  )
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isText = (value: unknown): value is string => typeof value === 'string'
/** A line of an environment file. */
const isSetting = ([name, value]: readonly [string, unknown]) =>
  /^SVC_[A-Z0-9_]{1,60}$/.test(name) && isText(value) && !/[\r\n\0]/.test(value)
const isMigration = (value: unknown) =>
  isFields(value) && isText(value.hash) && /^[0-9a-f]{64}$/.test(value.hash) && Number.isSafeInteger(value.created_at)

/** What somebody else may have written is of this form, or it is no header. */
function isHeader(value: unknown): value is BackupHeader {
  if (!isFields(value) || !isFields(value.secrets)) return false
  const { created_at: at, program_version: version, credentials, migrations } = value
  return (
    isText(at) &&
    /^[0-9TZ:.-]{20,30}$/.test(at) &&
    isText(version) &&
    /^[\x21-\x7e]{1,100}$/.test(version) &&
    Array.isArray(migrations) &&
    migrations.every(isMigration) &&
    Object.entries(value.secrets).every(isSetting) &&
    (credentials === null || (isFields(credentials) && Object.values(credentials).every(isText)))
  )
}

export function readHeader(line: string): BackupHeader {
  const prefix = `-- ${formatOf(line)} `
  try {
    const header: unknown = JSON.parse(line.slice(prefix.length))
    if (isHeader(header)) return header
  } catch {
    // Told below: the parser's message would quote a secret.
  }
  throw damaged()
}

export function readLine(line: string): BackupLine {
  const [, name, columns] = copyForm.exec(line) ?? []
  if (name !== undefined && columns !== undefined) {
    return { kind: 'table', table: { name: unquoted(name), columns: columns.split(', ').map(unquoted) } }
  }
  const [, sequence, value, isCalled] = sequenceForm.exec(line) ?? []
  if (sequence !== undefined && value !== undefined) {
    return { kind: 'sequence', sequence: { name: sequence, value, isCalled: isCalled === 'true' } }
  }
  if (!line.startsWith(endPrefix)) throw damaged()
  return { kind: 'end', rows: JSON.parse(line.slice(endPrefix.length)) as Readonly<Record<string, number>> }
}

export const foreign = () => new BackupError('This file is not a Penstock backup, or its beginning is damaged.')
export const damaged = () => new BackupError('The backup is damaged or incomplete.')

export function countLines(chunk: Uint8Array): number {
  let lines = 0
  for (let at = chunk.indexOf(newline); at !== -1; at = chunk.indexOf(newline, at + 1)) lines++
  return lines
}

const newline = 10
/** The longest line that is not a row is the header, which contains lists of secrets, bytes. */
const lineBytesMax = 1024 * 1024

/** Reads a backup's bytes as they come: line by line, and the rows of a table in pieces. */
export class BackupSource {
  private rest: Buffer = Buffer.alloc(0)
  private readonly chunks: AsyncIterator<Uint8Array>

  constructor(bytes: AsyncIterable<Uint8Array>) {
    this.chunks = bytes[Symbol.asyncIterator]()
  }

  async line(): Promise<string> {
    for (;;) {
      const end = this.rest.indexOf(newline)
      if (end !== -1) {
        const line = this.rest.toString('utf8', 0, end)
        this.rest = this.rest.subarray(end + 1)
        return line
      }
      if (this.rest.length > lineBytesMax || !(await this.more())) throw damaged()
    }
  }

  /**
   * Reads rows up to the end mark and consumes the mark. It returns pieces without waiting for the end of a line,
   * because a row may be long.
   */
  async *rows(): AsyncGenerator<Buffer> {
    while (this.rest.length < rowsEnd.length && (await this.more()));
    if (this.rest.subarray(0, rowsEnd.length).toString('latin1') === rowsEnd) {
      this.rest = this.rest.subarray(rowsEnd.length)
      return
    }
    for (;;) {
      const end = this.rest.indexOf(`\n${rowsEnd}`)
      if (end !== -1) {
        yield this.rest.subarray(0, end + 1)
        this.rest = this.rest.subarray(end + 1 + rowsEnd.length)
        return
      }
      // If only a part of the mark has arrived, it stays until the rest arrives.
      const held = this.rest.indexOf(newline, Math.max(0, this.rest.length - rowsEnd.length))
      const cut = held === -1 ? this.rest.length : held
      if (cut > 0) yield this.rest.subarray(0, cut)
      this.rest = this.rest.subarray(cut)
      if (!(await this.more())) throw damaged()
    }
  }

  /** Nothing may follow. */
  async end(): Promise<void> {
    if (this.rest.length > 0 || (await this.more())) throw damaged()
  }

  private async more(): Promise<boolean> {
    const { value, done } = await this.chunks.next()
    if (done === true) return false
    this.rest = this.rest.length === 0 ? Buffer.from(value) : Buffer.concat([this.rest, value])
    return true
  }
}
