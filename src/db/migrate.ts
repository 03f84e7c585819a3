import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { TransactionSql } from 'postgres'
import { programFile } from '../host/program-files.ts'
import { connect } from './client.ts'

const folder = 'src/db/migrations'
export const migrationsFolder = programFile(folder)

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

export const statementBreakpoint = '--> statement-breakpoint'

/** All migrations of this version, oldest first. */
export function migrations(): readonly Migration[] {
  const journal = JSON.parse(readFileSync(programFile(`${folder}/meta/_journal.json`), 'utf8')) as Journal
  return journal.entries.map(({ tag, when }) => {
    const text = readFileSync(programFile(`${folder}/${tag}.sql`), 'utf8')
    const hash = createHash('sha256').update(text).digest('hex')
    return { statements: text.split(statementBreakpoint), madeAt: when, hash }
  })
}

/** Uses the table and the rule of Drizzle's own migrator, which reads a folder and is not part of a built program. */
export async function applyMigrations(sql: TransactionSql, wanted: readonly Migration[]): Promise<void> {
  await sql.unsafe('create schema if not exists drizzle')
  await sql.unsafe(
    'create table if not exists drizzle.__drizzle_migrations (id serial primary key, hash text not null, created_at bigint)',
  )
  const [last] = await sql<{ at: string }[]>`
    select created_at as at from drizzle.__drizzle_migrations order by created_at desc limit 1`
  const newer = last === undefined ? wanted : wanted.filter(({ madeAt }) => madeAt > Number(last.at))
  for (const { statements, hash, madeAt } of newer) {
    for (const statement of statements) await sql.unsafe(statement)
    await sql`insert into drizzle.__drizzle_migrations (hash, created_at) values (${hash}, ${madeAt})`
  }
}

/** Throws `DatabaseNewerError`: what a newer version has changed, this one could misread or spoil. */
async function refuseNewer(sql: TransactionSql): Promise<void> {
  const [found] = await sql<{ there: boolean }[]>`
    select to_regclass('drizzle.__drizzle_migrations') is not null as there`
  if (found?.there !== true) return
  const [row] = await sql<{ applied: string; newest: string | null }[]>`
    select count(*)::text as applied, max(created_at)::text as newest from drizzle.__drizzle_migrations`
  const known = migrations()
  if (Number(row?.newest ?? 0) > (known.at(-1)?.madeAt ?? 0)) {
    throw new DatabaseNewerError(Number(row?.applied), known.length)
  }
}

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
    await sql.begin(async (transaction) => {
      await refuseNewer(transaction)
      await applyMigrations(transaction, migrations())
    })
  } finally {
    // Ending the connection frees the lock.
    await sql.end({ timeout: 5 })
  }
}
