import type { TransactionSql } from 'postgres'
import { failureName } from '../../log.ts'
import { connect } from '../client.ts'
import { copyIn } from '../copy.ts'
import { applyMigrations, databaseNewer, type Migration, migrateDatabase, migrations } from '../migrate.ts'
import {
  type AppliedMigration,
  BackupError,
  type BackupHeader,
  type BackupSource,
  type BackupTable,
  countLines,
  damaged,
  readLine,
  type SequenceValue,
} from './backup-text.ts'
import { appliedMigrations, type Rows } from './dump.ts'

export interface RestoreOptions {
  /** Replaces what is in the database. */
  readonly overwrite: boolean
  /** Rejects where the text that was read is not to be kept after all. */
  readonly confirm: () => Promise<void>
}

/** The migrations of this version with which the backup's tables were made. */
function migrationsOf({ migrations: applied, program_version }: BackupHeader): readonly Migration[] {
  const known = migrations()
  if (applied.length === 0) throw damaged()
  if (applied.length > known.length) {
    throw new BackupError(
      `This backup has migration ${applied.length} and this version knows ${known.length}: a newer version (${program_version}) made it. Install that version, then restore. (${databaseNewer})`,
    )
  }
  const same = ({ hash, created_at }: AppliedMigration, at: number) =>
    known[at]?.hash === hash && known[at]?.madeAt === created_at
  if (!applied.every(same)) {
    throw new BackupError(`This version does not know the tables of the backup, which version ${program_version} made.`)
  }
  return known.slice(0, applied.length)
}

/**
 * Loads a backup whose header was read into tables as they were then, all of it or, when anything is wrong, nothing. Needs
 * a role that owns the database, and no superuser. Resolves with the rows of each table. Throws `BackupError`.
 */
export async function loadBackup(
  url: string,
  header: BackupHeader,
  source: BackupSource,
  { overwrite, confirm }: RestoreOptions,
): Promise<Rows> {
  const needed = migrationsOf(header)
  const client = connect(url, { max: 1, connection: { application_name: 'penstock-restore' } })
  try {
    return (await client.begin(async (sql) => {
      await makeRoom(sql, overwrite)
      await sql.unsafe('drop schema if exists drizzle cascade')
      await applyMigrations(sql, needed)
      const loaded = await load(sql, source)
      await confirm()
      return loaded
    })) as Rows
  } finally {
    await client.end({ timeout: 5 })
  }
}

/** The same, brings the tables up to this version, and ends all sessions of the console. */
export async function restoreDatabase(
  url: string,
  header: BackupHeader,
  source: BackupSource,
  options: RestoreOptions,
): Promise<Rows> {
  const rows = await loadBackup(url, header, source, options)
  await migrateDatabase(url)
  await endSessions(url)
  return rows
}

/** A session of the console that somebody has ended since the backup was made must not come back. */
async function endSessions(url: string): Promise<void> {
  const client = connect(url, { max: 1, connection: { application_name: 'penstock-restore' } })
  try {
    await client`update console_sessions set ended_at = now(), end_reason = 'revoked' where ended_at is null`
  } finally {
    await client.end({ timeout: 5 })
  }
}

/** Empties the schema. Refuses if it contains something that must be kept. */
async function makeRoom(sql: TransactionSql, overwrite: boolean): Promise<void> {
  const tables =
    await sql`select 1 from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p', 'v')`
  if (tables.length === 0) return
  const [first] = await appliedMigrations(sql)
  if (first === undefined || first.hash !== migrations()[0]?.hash) {
    throw new BackupError('The database contains tables of another program. Restore into a database of its own.')
  }
  if (!overwrite) throw new BackupError('The database is not empty. --overwrite replaces everything in it.')
  const others = await sql`
    select 1 from pg_stat_activity where datname = current_database() and application_name = 'penstock'`
  if (others.length > 0) throw new BackupError('A gateway is using this database. Stop every gateway, then restore.')
  await sql.unsafe('drop schema public cascade')
  await sql.unsafe('create schema public')
}

/**
 * The rows are complete already, so no trigger may add to them. Foreign keys are dropped because no order of tables
 * could satisfy all of them.
 */
async function load(sql: TransactionSql, source: BackupSource): Promise<Rows> {
  let tables = await columnsOf(sql)
  const foreignKeys = await dropForeignKeys(sql)
  for (const table of tables.keys()) {
    await sql.unsafe(`alter table public."${table}" disable trigger user`)
    await sql.unsafe(`delete from public."${table}"`)
  }
  const rows: Record<string, number> = {}
  for (;;) {
    const line = readLine(await source.line())
    if (line.kind === 'table') {
      if (await madeWeek(sql, tables, line.table.name)) tables = await columnsOf(sql)
      rows[line.table.name] = await loadTable(sql, known(tables, line.table), source)
    } else if (line.kind === 'sequence') await setSequence(sql, line.sequence)
    else if (Bun.deepEquals(rows, line.rows)) break
    else throw damaged()
  }
  await source.end()
  for (const add of foreignKeys) await sql.unsafe(add)
  for (const table of tables.keys()) await sql.unsafe(`alter table public."${table}" enable trigger user`)
  return rows
}

async function columnsOf(sql: TransactionSql): Promise<ReadonlyMap<string, readonly string[]>> {
  const found = await sql.unsafe<{ name: string; columns: string[] }[]>(`
    select c.relname as name, json_agg(a.attname) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' group by c.relname`)
  return new Map(found.map(({ name, columns }) => [name, columns]))
}

/** Tables of the audit hold a week each, and the migrations make those of today alone. */
const weekForm = /^admin_(?:access|approval|command)_events_p([0-9]{4})([0-9]{2})([0-9]{2})$/

/** Makes the tables of a week that the backup has and the database has not; false: there was nothing to make. */
async function madeWeek(
  sql: TransactionSql,
  tables: ReadonlyMap<string, readonly string[]>,
  name: string,
): Promise<boolean> {
  const [, year, month, day] = weekForm.exec(name) ?? []
  const week = `${year}-${month}-${day}T00:00:00Z`
  if (tables.has(name) || Number.isNaN(Date.parse(week))) return false
  await sql`select audit_ensure_partitions(${week}, ${week})`
  return true
}

function known(tables: ReadonlyMap<string, readonly string[]>, table: BackupTable): BackupTable {
  const columns = tables.get(table.name)
  if (columns === undefined || !table.columns.every((column) => columns.includes(column))) throw damaged()
  return table
}

/** Drops the foreign keys and returns the statements that make them again. */
async function dropForeignKeys(sql: TransactionSql): Promise<readonly string[]> {
  const keys = await sql.unsafe<{ on: string; name: string; definition: string }[]>(`
    select c.conrelid::regclass::text as "on", quote_ident(c.conname) as name, pg_get_constraintdef(c.oid) as definition
    from pg_constraint c where c.contype = 'f' and c.connamespace = 'public'::regnamespace order by 1, 2`)
  for (const { on, name } of keys) await sql.unsafe(`alter table ${on} drop constraint ${name}`)
  return keys.map(({ on, name, definition }) => `alter table ${on} add constraint ${name} ${definition}`)
}

async function setSequence(sql: TransactionSql, { name, value, isCalled }: SequenceValue): Promise<void> {
  await sql.unsafe(`select setval('public."${name}"', ${value}, ${isCalled})`)
}

/** Rows that the server refuses are not those that were written: SQLSTATE classes 22 and 23. */
const isRefused = (error: unknown) => /^2[23]...$/.test(failureName(error))

async function loadTable(sql: TransactionSql, table: BackupTable, source: BackupSource): Promise<number> {
  const columns = table.columns.map((column) => `"${column}"`).join(', ')
  let rows = 0
  async function* counted() {
    for await (const chunk of source.rows()) {
      rows += countLines(chunk)
      // The buffer of this piece is not written again, so the piece may wait in the stream.
      yield chunk
    }
  }
  await copyIn(sql, `copy public."${table.name}" (${columns}) from stdin`, counted()).catch((error: unknown) => {
    throw isRefused(error) ? damaged() : error
  })
  return rows
}
