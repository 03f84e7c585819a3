/**
 * The text of a backup: SQL that a person can read and `psql` can load into migrated tables, as `pg_dump --data-only`
 * writes it. The first line is a comment with the header, the last one with the number of rows of each table, so that a
 * text that was cut off is known as such.
 */
export const backupFormat = 'penstock-backup-v1'

export interface AppliedMigration {
  /** Unix ms, by which the migrator orders them. */
  readonly created_at: number
  /** SHA-256 of its SQL, hexadecimal. */
  readonly hash: string
}

export interface BackupHeader {
  readonly format: typeof backupFormat
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

const headerPrefix = `-- ${backupFormat} `
const anyHeader = /^-- penstock-backup-(v[0-9]+) /
const endPrefix = '-- end '
const copyForm = /^COPY public\.("[a-z][a-z0-9_]*") \(((?:"[a-z][a-z0-9_]*"(?:, )?)+)\) FROM stdin;$/
const sequenceForm = /^SELECT pg_catalog\.setval\('public\."([a-z][a-z0-9_]*)"', ([0-9]{1,19}), (true|false)\);$/
/** The mark that ends the rows of a table. No row in COPY's text format can look like it. */
export const rowsEnd = '\\.\n'

const quoted = (name: string) => `"${name}"`
const unquoted = (name: string) => name.slice(1, -1)

export const headerLine = (header: BackupHeader) => `${headerPrefix}${JSON.stringify(header)}\n`
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

export function readHeader(line: string): BackupHeader {
  const version = anyHeader.exec(line)?.[1]
  if (version === undefined) throw foreign()
  if (!line.startsWith(headerPrefix))
    throw new BackupError(`The backup has the format ${version}, which this version cannot read.`)
  try {
    return JSON.parse(line.slice(headerPrefix.length)) as BackupHeader
  } catch {
    throw damaged()
  }
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

export const foreign = () => new BackupError('This file is not a Penstock backup.')
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

  private async more(): Promise<boolean> {
    const { value, done } = await this.chunks.next()
    if (done === true) return false
    this.rest = this.rest.length === 0 ? Buffer.from(value) : Buffer.concat([this.rest, value])
    return true
  }
}
