import { expect, test } from 'bun:test'
import { connect, openDatabase } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { readPool } from '../../src/db/queries/pool/pool.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

test('§9: models that a version before has known are as old as their first profile, or as what their entry calls so', async () => {
  const old = await emptyDatabase()
  const sql = connect(old.url, { max: 1 })
  const { db, close } = openDatabase({ url: old.url, connectionsMax: 1 })
  try {
    const all = migrations()
    const before = all.findIndex(({ statements }) => statements.some((text) => text.includes('"known_models"')))
    expect(before).toBeGreaterThan(0)
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, before)))
    await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
      values ('c1', 'one', ${Buffer.from('1')}, ${Buffer.from('s')})`
    await sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class)
      values ('n1', 'c1', 'runtime', 'n', 'private', 'private', 'x')`
    await sql`insert into runtimes (runtime_id, node_id) values ('r1', 'n1')`
    await sql`insert into runtimes (runtime_id, node_id, label) values ('r2', 'n1', 'other')`
    await sql`insert into model_profiles (profile_id, runtime_id, upstream_model_id, created_at) values
      ('p1', 'r1', 'a', '2026-02-01Z'), ('p2', 'r2', 'a', '2026-01-01Z'), ('p3', 'r1', 'b', '2026-03-01Z')`
    await sql`insert into model_entries (model_id, aliases, updated_at) values
      ('named', '["b", "nowhere"]', '2026-05-01Z'), ('unserved', '[]', '2026-04-01Z')`
    await sql.begin((transaction) => applyMigrations(transaction, all))
    const { profiles, entries } = await readPool(db)
    const days = (rows: readonly (readonly [string, Date])[]) =>
      Object.fromEntries(rows.map(([id, at]) => [id, at.toISOString().slice(0, 10)]))
    expect(days(profiles.map(({ profileId, knownAt }) => [profileId, knownAt]))).toEqual({
      p1: '2026-01-01',
      p2: '2026-01-01',
      p3: '2026-03-01',
    })
    expect(days(entries.map(({ modelId, knownAt }) => [modelId, knownAt]))).toEqual({
      named: '2026-03-01',
      unserved: '2026-04-01',
    })
  } finally {
    await sql.end()
    await close()
    await old.drop()
  }
})

test('§9: a profile that a gateway of a version before has made is as old as itself', async () => {
  const database = await emptyDatabase()
  const sql = connect(database.url, { max: 1 })
  const { db, close } = openDatabase({ url: database.url, connectionsMax: 1 })
  try {
    await sql.begin((transaction) => applyMigrations(transaction, migrations()))
    await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed)
      values ('c1', 'one', ${Buffer.from('1')}, ${Buffer.from('s')})`
    await sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class)
      values ('n1', 'c1', 'runtime', 'n', 'private', 'private', 'x')`
    await sql`insert into runtimes (runtime_id, node_id) values ('r1', 'n1')`
    await sql`insert into model_profiles (profile_id, runtime_id, upstream_model_id, created_at)
      values ('p1', 'r1', 'a', '2026-02-01Z')`
    const [profile] = (await readPool(db)).profiles
    expect(profile?.knownAt).toEqual(new Date('2026-02-01Z'))
  } finally {
    await sql.end()
    await close()
    await database.drop()
  }
})
