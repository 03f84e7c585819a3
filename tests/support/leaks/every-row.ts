import { connect } from '../../../src/db/client.ts'

export interface Row {
  readonly table: string
  /** JSON. */
  readonly row: string
}

/** All rows of all tables that are not PostgreSQL's own. */
export async function everyRow(url: string): Promise<readonly Row[]> {
  const sql = connect(url, { max: 1 })
  const tables = await sql<{ schema: string; name: string }[]>`
    select schemaname as schema, tablename as name from pg_tables
    where schemaname not in ('pg_catalog', 'information_schema')`
  const rows: Row[] = []
  for (const { schema, name } of tables) {
    const found = await sql.unsafe<{ row: string }[]>(`select row_to_json(t)::text as row from "${schema}"."${name}" t`)
    rows.push(...found.map(({ row }) => ({ table: name, row })))
  }
  await sql.end()
  return rows
}
