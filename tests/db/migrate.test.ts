import { expect, test } from 'bun:test'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connect } from '../../src/db/client.ts'
import { migrateDatabase, migrations, migrationsFolder } from '../../src/db/migrate.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

const count = migrations().length

test('three processes migrate one database at once: each succeeds, each migration runs once', async () => {
  const database = await emptyDatabase()
  const program = `import { migrateDatabase } from ${JSON.stringify(join(import.meta.dir, '../../src/db/migrate.ts'))}; await migrateDatabase(process.env.TARGET)`
  const codes = await Promise.all(
    Array.from(
      { length: 3 },
      () =>
        Bun.spawn([process.execPath, '-e', program], {
          env: { ...process.env, TARGET: database.url },
          stderr: 'inherit',
        }).exited,
    ),
  )
  expect(codes).toEqual([0, 0, 0])
  const sql = connect(database.url, { max: 1 })
  const [row] = await sql`select count(*)::int as count from drizzle.__drizzle_migrations`
  await sql.end()
  expect(row).toEqual({ count })
  await database.drop()
})

test('a second run changes nothing and leaves no lock behind', async () => {
  const database = await emptyDatabase()
  await migrateDatabase(database.url)
  await migrateDatabase(database.url)
  const sql = connect(database.url, { max: 1 })
  const locks =
    await sql`select 1 from pg_locks where locktype = 'advisory' and database = (select oid from pg_database where datname = current_database())`
  const [row] = await sql`select count(*)::int as count from drizzle.__drizzle_migrations`
  await sql.end()
  expect([locks.length, row]).toEqual([0, { count }])
  await database.drop()
})

test('drizzle-kit compares with the newest snapshot, and the repository keeps no other', () => {
  const journal = JSON.parse(readFileSync(join(migrationsFolder, 'meta/_journal.json'), 'utf8'))
  const newest = journal.entries.at(-1).tag.slice(0, 4)
  expect(readdirSync(join(migrationsFolder, 'meta')).sort()).toEqual([`${newest}_snapshot.json`, '_journal.json'])
})
