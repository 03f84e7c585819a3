import { expect, test } from 'bun:test'
import { connect } from '../../src/db/client.ts'
import { writeBackup } from '../../src/offline/backup.ts'
import { restoreBackup } from '../../src/offline/restore.ts'
import { fixture, scoped } from '../support/run/fixture.ts'
import { openBench } from '../support/run/offline.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

const receiptsMade = 20_000
const nodesMade = 3_000

const bench = await fixture(openBench())
const database = await fixture(testDatabase())
const { sql } = database
await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed) values ('c', 'c', '\\x01', '\\x02')`
await sql`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind, model_id,
      prompt_tokens, completion_tokens, started_at, completed_at, customer_id)
    select md5(i::text), 'gateway', 'r' || i, 'hosted_chat', 'n', 'gpu', 'rt', 'vllm', 'm', 1, 2, now(), now(), 'c'
    from generate_series(1, ${receiptsMade}::int) i`
// Rows of several hundred kilobytes, such as a long list of keys would be.
await sql`insert into nodes (node_id, customer_id, kind, name, visibility, privacy_class, node_class, transport_keys)
    select 'n' || i, 'c', 'agent', repeat(E'ab\\t\\\\.\\n', case when i < 4 then 60000 else 1 end), 'private', 'private', 'gpu',
      jsonb_build_array(repeat('k', 100)) from generate_series(1, ${nodesMade}::int) i`

const digest = `select (select md5(string_agg(r::text, '' order by receipt_hash)) from receipts r) as receipts,
  (select md5(string_agg(n::text, '' order by node_id)) from nodes n) as nodes`

test('§24: tables larger than any buffer, and rows longer than one, come through to the letter', async () => {
  const file = bench.path('large.sql.gz')
  await using target = await scoped(emptyDatabase())
  const made = await writeBackup({ env: { DATABASE_URL: database.url }, target: file, overwrite: false })
  expect(made.rows).toMatchObject({ receipt_rows: receiptsMade, nodes: nodesMade })
  await restoreBackup({
    env: { DATABASE_URL: target.url },
    file,
    overwrite: false,
    secretsTo: null,
    unverified: true,
  })
  const sql = connect(target.url, { max: 1 })
  const [restored] = await sql.unsafe(digest)
  const [original] = await database.sql.unsafe(digest)
  await sql.end()
  expect(restored).toEqual(original as never)
})

test('§24: a role that owns its database and is no superuser can restore into it, twice', async () => {
  const file = bench.path('plain.sql.gz')
  const source = await testDatabase()
  const target = await emptyDatabase()
  const role = `plain_${process.pid}`
  const name = new URL(target.url).pathname.slice(1)
  const { sql } = database
  try {
    await sql.unsafe(`create role ${role} login password 'word' nosuperuser nocreatedb`)
    await sql.unsafe(`alter database ${name} owner to ${role}`)
    const url = new URL(target.url)
    url.username = role
    url.password = 'word'
    await writeBackup({ env: { DATABASE_URL: source.url }, target: file, overwrite: false })
    for (const overwrite of [false, true]) {
      const { rows } = await restoreBackup({
        env: { DATABASE_URL: url.toString() },
        file,
        overwrite,
        secretsTo: null,
        unverified: true,
      })
      expect(Object.keys(rows)).toContain('receipt_rows')
    }
  } finally {
    await target.drop()
    await sql.unsafe(`drop role if exists ${role}`)
    await source.drop()
  }
})
