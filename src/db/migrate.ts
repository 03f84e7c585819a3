import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { gunzipSync } from 'node:zlib'
import type { TransactionSql } from 'postgres'
import { programFile } from '../host/program-files.ts'
import { connect } from './client.ts'

const folder = 'src/db/migrations'
export const migrationsFolder = programFile(folder)
export const statementBreakpoint = '--> statement-breakpoint'

export interface Migration {
  readonly statements: readonly string[]
  /** Unix ms. It orders the migrations and identifies the applied ones. */
  readonly madeAt: number
  /** SHA-256 of the file. */
  readonly hash: string
}

interface Journal {
  readonly entries: readonly { readonly tag: string; readonly when: number }[]
}

/** The bytes of "penstock" as one number, so that no other program uses the same advisory lock by accident. */
const migrationLockKey = '8099000947049456491'
/** Other processes may be migrating; after this the start fails with 55P03. */
const lockWaitMs = 60_000
/** The code of what is refused because a newer version made it. */
export const databaseNewer = 'database_newer'

/** The text is for the operator. */
export class DatabaseNewerError extends Error {
  override readonly name = 'DatabaseNewerError'
  readonly code = databaseNewer

  constructor(applied: number, known: number) {
    super(
      `The database has migration ${applied} and this version knows ${known}: a newer version of the gateway has used it. Start that version or a later one, or restore a backup from before into another database. (${databaseNewer})`,
    )
  }
}

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex')
const migrationOf = (text: string, madeAt: number): Migration => ({
  statements: text.split(statementBreakpoint),
  madeAt,
  hash: hashOf(text),
})
const textOf = (tag: string) => readFileSync(programFile(`${folder}/${tag}.sql`), 'utf8')

interface Known {
  /** What brings a database of before 0.1.0 to the baseline, oldest first. */
  readonly chain: readonly Migration[]
  /** What makes of an empty database what the chain does, at once. */
  readonly baseline: string
  readonly later: readonly Migration[]
}

const readJournal = () => JSON.parse(readFileSync(programFile(`${folder}/meta/_journal.json`), 'utf8')) as Journal

/** Read at each use: a process needs them at its start alone, and only where the database is of another version. */
function read(): Known {
  const journal = readJournal()
  const packed = gunzipSync(readFileSync(programFile(`${folder}/chain.json.gz`))).toString()
  const chain = JSON.parse(packed) as readonly { readonly text: string; readonly when: number }[]
  const [first, ...later] = journal.entries
  if (first === undefined) throw new Error('the journal of the migrations is empty')
  return {
    chain: chain.map(({ text, when }) => migrationOf(text, when)),
    baseline: textOf(first.tag),
    later: later.map(({ tag, when }) => migrationOf(textOf(tag), when)),
  }
}

/** All migrations of this version, oldest first. */
export function migrations(): readonly Migration[] {
  const { chain, later } = read()
  return [...chain, ...later]
}

/**
 * Uses the table and the rule of Drizzle's own migrator, which reads a folder and is not part of a built program. An empty
 * database takes the baseline in place of the chain, and notes the chain as applied: both ways end the same.
 */
export async function applyMigrations(sql: TransactionSql, wanted: readonly Migration[]): Promise<void> {
  await sql.unsafe('create schema if not exists drizzle')
  await sql.unsafe(
    'create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
  )
  const note = ({ hash, madeAt }: Migration) =>
    sql`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${madeAt})`
  const [last] = await sql<{ at: string }[]>`
    select created_at as at from drizzle.__drizzle_migrations order by created_at desc limit 1`
  const packed = last === undefined ? read() : null
  const whole = packed?.chain.every(({ hash }, at) => wanted[at]?.hash === hash) === true
  if (packed !== null && whole) {
    await sql.unsafe(packed.baseline)
    for (const migration of packed.chain) await note(migration)
  }
  const from = whole ? Number(packed?.chain.at(-1)?.madeAt) : Number(last?.at ?? 0)
  for (const migration of wanted.filter(({ madeAt }) => madeAt > from)) {
    for (const statement of migration.statements) await sql.unsafe(statement)
    await note(migration)
  }
}

/** Whether the database is of an older version. Throws `DatabaseNewerError`: what a newer one has changed, this one could misread or spoil. */
async function isOlder(sql: TransactionSql): Promise<boolean> {
  const [found] = await sql<{ there: boolean }[]>`
    select to_regclass('drizzle.__drizzle_migrations') is not null as there`
  if (found?.there !== true) return true
  const [row] = await sql<{ applied: string; newest: string | null }[]>`
    select count(*)::text as applied, max(created_at)::text as newest from drizzle.__drizzle_migrations`
  const [newest, known] = [Number(row?.newest ?? 0), readJournal().entries.at(-1)?.when ?? 0]
  if (newest > known) throw new DatabaseNewerError(Number(row?.applied), migrations().length)
  return newest < known
}

/** PostgreSQL's code of a transaction that it ended because two waited for each other. Nothing of it is left. */
const deadlockCode = '40P01'
const triesMax = 10

/** Brings the schema up to date; does nothing when it is. Throws `DatabaseNewerError`. Processes take turns by an advisory lock. */
export async function migrateDatabase(url: string): Promise<void> {
  const sql = connect(url, {
    max: 1,
    max_lifetime: null,
    connection: { application_name: 'penstock-migrate', lock_timeout: lockWaitMs },
  })
  try {
    await sql`select pg_advisory_lock(${migrationLockKey})`
    // A migration may wait longer for a table than for the lock above.
    await sql`set lock_timeout = 0`
    for (let tries = 1; ; tries++) {
      try {
        await sql.begin(async (transaction) => {
          if (await isOlder(transaction)) await applyMigrations(transaction, migrations())
        })
        return
      } catch (error) {
        // Beside a gateway of the version before that charges, either side may be the one that gives way.
        if ((error as { code?: unknown }).code !== deadlockCode || tries === triesMax) throw error
      }
    }
  } finally {
    // Ending the connection frees the lock.
    await sql.end({ timeout: 5 })
  }
}
