import type { Sql } from 'postgres'
import { connect } from '../client.ts'
import {
  type AppliedMigration,
  type BackupHeader,
  type BackupTable,
  backupFormat,
  copyLine,
  countLines,
  endLine,
  headerLine,
  rowsEnd,
  sequenceLine,
} from './backup-text.ts'

export type Rows = Readonly<Record<string, number>>

export interface Dumped {
  readonly rows: Rows
  /** The name of the public log; null: there is none yet. */
  readonly logOrigin: string | null
}

type About = Pick<BackupHeader, 'program_version' | 'secrets' | 'credentials'>

/**
 * Writes all tables as they are at one moment, while others go on writing. Tables that PostgreSQL itself would lose at a
 * crash (UNLOGGED: rates and slots of the last minute) are left out, and so is what became of each request: it is many
 * rows of a few days that nothing depends on. The places of receipts are made again from their groups.
 */
export async function dumpDatabase(
  url: string,
  about: About,
  write: (chunk: Uint8Array | string) => Promise<void>,
): Promise<Dumped> {
  const client = connect(url, { max: 1, connection: { application_name: 'penstock-backup' } })
  try {
    return (await client.begin('isolation level repeatable read read only', async (sql) => {
      const created_at = new Date().toISOString()
      await write(headerLine({ format: backupFormat, created_at, ...about, migrations: await appliedMigrations(sql) }))
      const rows: Record<string, number> = {}
      for (const table of await tablesOf(sql)) rows[table.name] = await dumpTable(sql, table, write)
      for (const sequence of await sequencesOf(sql)) await write(sequenceLine(sequence))
      await write(endLine(rows))
      return { rows, logOrigin: await logOriginOf(sql) }
    })) as Dumped
  } finally {
    await client.end({ timeout: 5 })
  }
}

/** Oldest first. An empty list means that no gateway has ever used the database. */
export async function appliedMigrations(sql: Pick<Sql, 'unsafe'>): Promise<readonly AppliedMigration[]> {
  const [{ found } = { found: null }] = await sql.unsafe<{ found: string | null }[]>(
    "select to_regclass('drizzle.__drizzle_migrations')::text as found",
  )
  if (found === null) return []
  const rows = await sql.unsafe<{ hash: string; created_at: string }[]>(
    'select hash, created_at from drizzle.__drizzle_migrations order by created_at',
  )
  return rows.map(({ hash, created_at }) => ({ hash, created_at: Number(created_at) }))
}

async function logOriginOf(sql: Pick<Sql, 'unsafe'>): Promise<string | null> {
  const [{ there } = { there: false }] = await sql.unsafe<{ there: boolean }[]>(
    "select to_regclass('public.log_state') is not null as there",
  )
  const [row] = there ? await sql.unsafe<{ origin: string }[]>('select origin from public.log_state') : []
  return row?.origin ?? null
}

function tablesOf(sql: Pick<Sql, 'unsafe'>): Promise<readonly BackupTable[]> {
  return sql.unsafe<{ name: string; columns: string[] }[]>(`
    select c.relname as name, json_agg(a.attname order by a.attnum) as columns
    from pg_class c join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relpersistence = 'p'
      and c.relname !~ '^(request_groups_p[0-9]{8}|receipt_place_runs|receipt_places_[0-9]+_[0-9]+)$'
    group by c.relname order by c.relname`)
}

async function sequencesOf(sql: Pick<Sql, 'unsafe'>) {
  const names = await sql.unsafe<{ name: string }[]>(
    "select relname as name from pg_class where relnamespace = 'public'::regnamespace and relkind = 'S' order by relname",
  )
  return Promise.all(
    names.map(async ({ name }) => {
      const query = `select last_value::text as value, is_called from public."${name}"`
      const [row] = await sql.unsafe<{ value: string; is_called: boolean }[]>(query)
      return { name, value: row?.value ?? '1', isCalled: row?.is_called ?? false }
    }),
  )
}

async function dumpTable(
  sql: Pick<Sql, 'unsafe'>,
  table: BackupTable,
  write: (chunk: Uint8Array | string) => Promise<void>,
): Promise<number> {
  const columns = table.columns.map((column) => `"${column}"`).join(', ')
  await write(copyLine(table))
  const stream = await sql.unsafe(`copy public."${table.name}" (${columns}) to stdout`).readable()
  let rows = 0
  for await (const chunk of stream as AsyncIterable<Uint8Array>) {
    rows += countLines(chunk)
    await write(chunk)
  }
  await write(rowsEnd)
  return rows
}
