import { expect, test } from 'bun:test'
import type postgres from 'postgres'
import { connect } from '../../src/db/client.ts'
import { applyMigrations, migrateDatabase, migrations } from '../../src/db/migrate.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/** Everything that statements and their answers depend on, as PostgreSQL writes it. */
const parts = {
  relations: `select c.relname, c.relkind, c.relispartition, pg_get_partkeydef(c.oid) as key, c.reloptions,
      pg_get_expr(c.relpartbound, c.oid) as bound, case when c.relkind = 'v' then pg_get_viewdef(c.oid) end as view
    from pg_class c where c.relnamespace = 'public'::regnamespace order by 1`,
  columns: `select a.attrelid::regclass::text as relation, a.attname, format_type(a.atttypid, a.atttypmod) as type,
      a.attnotnull, a.attidentity, a.attgenerated, a.attstorage, pg_get_expr(d.adbin, d.adrelid) as default,
      row_number() over (partition by a.attrelid order by a.attnum) as place
    from pg_attribute a join pg_class c on c.oid = a.attrelid
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where c.relnamespace = 'public'::regnamespace and a.attnum > 0 and not a.attisdropped order by 1, place`,
  indexes: `select indexrelid::regclass::text as name, pg_get_indexdef(indexrelid) as index
    from pg_index join pg_class c on c.oid = indexrelid where c.relnamespace = 'public'::regnamespace order by 1`,
  // PostgreSQL 18 names what is not null after the column, as it was called when the rule was made.
  constraints: `select conrelid::regclass::text as relation, conname, pg_get_constraintdef(oid) as rule
    from pg_constraint where connamespace = 'public'::regnamespace and contype <> 'n' order by 1, 2`,
  functions: `select oid::regprocedure::text as name, pg_get_functiondef(oid) as definition
    from pg_proc where pronamespace = 'public'::regnamespace order by 1`,
  // A list of conditions comes back from PostgreSQL with other parentheses than it was given.
  triggers: `select tgrelid::regclass::text as relation, tgname, tgenabled, translate(pg_get_triggerdef(oid), '()', '') as definition
    from pg_trigger where not tgisinternal order by 1, 2`,
  sequences: `select sequencename, data_type::text as type, start_value, min_value, max_value, increment_by, cycle, cache_size
    from pg_sequences where schemaname = 'public' order by 1`,
  types: `select typname, typtype from pg_type where typnamespace = 'public'::regnamespace and typtype in ('e', 'd') order by 1`,
} as const

async function everything(sql: postgres.Sql): Promise<Record<string, readonly unknown[]>> {
  const found: Record<string, readonly unknown[]> = {}
  for (const [name, query] of Object.entries(parts)) found[name] = [...(await sql.unsafe(query))]
  for (const { relname } of (await sql`
    select relname from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
    order by 1`) as unknown as readonly { readonly relname: string }[]) {
    found[`rows of ${relname}`] = [
      ...(await sql.unsafe(`select to_jsonb(t) as row from ${relname} t order by t::text`)),
    ]
  }
  found.migrations = [...(await sql`select hash, created_at from drizzle.__drizzle_migrations order by id`)]
  return found
}

test('§24: a database that is made by the baseline is the one that all the migrations before it make', async () => {
  const [stepByStep, atOnce] = [await emptyDatabase(), await emptyDatabase()]
  const [chained, made] = [connect(stepByStep.url, { max: 1 }), connect(atOnce.url, { max: 1 })]
  try {
    const all = migrations()
    await chained.begin((transaction) => applyMigrations(transaction, all.slice(0, 1)))
    await migrateDatabase(stepByStep.url)
    await migrateDatabase(atOnce.url)
    const [old, fresh] = [await everything(chained), await everything(made)]
    expect(fresh.functions?.length).toBeGreaterThan(30)
    expect(fresh.columns?.length).toBeGreaterThan(500)
    for (const [name, rows] of Object.entries(old)) expect([name, fresh[name]]).toEqual([name, rows])
    expect(Object.keys(fresh)).toEqual(Object.keys(old))
  } finally {
    await Promise.all([chained.end(), made.end()])
    await Promise.all([stepByStep.drop(), atOnce.drop()])
  }
})
