import { expect, test } from 'bun:test'
import { TimedReceipts } from '../../src/actors/money/timed-receipts.ts'
import { connect, openDatabase } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { receiptsIssuedFrom } from '../../src/db/queries/money/receipts.ts'
import { hourMs } from '../../src/time.ts'
import { scoped } from '../support/run/fixture.ts'
import { emptyDatabase, testDatabase } from '../support/run/postgres.ts'

test.each([
  ['that has receipts', true],
  ['without any', false],
])('§36: in a database %s receipts v3 are issued from the right time on', async (_, used) => {
  const old = await emptyDatabase()
  const sql = connect(old.url, { max: 1 })
  const { db, close } = openDatabase({ url: old.url, connectionsMax: 1 })
  try {
    const all = migrations()
    const before = all.findIndex(({ statements }) => statements.some((text) => text.includes('"receipt_versions"')))
    expect(before).toBeGreaterThan(0)
    await sql.begin((transaction) => applyMigrations(transaction, all.slice(0, before)))
    const columns = ['customer_id', 'kind', 'node_id', 'node_class', 'runtime_id', 'runtime_kind', 'model_id']
    if (used) {
      await sql.unsafe(`insert into receipt_rows (receipt_hash, issuer, request_id, ${columns}, prompt_tokens,
          completion_tokens, started_at, completed_at)
        values ('0x1', 'gateway', 'req_1', 'local', 'hosted_chat', ${"'x', ".repeat(4)} 'x', 1, 1, now(), now())`)
      await sql`insert into log_receipts values (0, 1, 0, 1)`
    }
    const begun = Date.now()
    await sql.begin((transaction) => applyMigrations(transaction, all))
    const issued = (await receiptsIssuedFrom(db)).getTime()
    const [from, to] = used ? [begun + hourMs, Date.now() + hourMs] : [0, 0]
    expect(issued).toBeGreaterThanOrEqual(from)
    expect(to).toBeGreaterThanOrEqual(issued)
    // Nobody knows since when the log holds what it held before.
    expect(await sql`select 1 from log_receipts where taken_at is not null`).toHaveLength(0)
    await sql`insert into log_receipts values (1, 1, 1, 2)`
    expect(await sql`select 1 from log_receipts where taken_at is not null`).toHaveLength(1)
  } finally {
    await sql.end()
    await close()
    await old.drop()
  }
})

test.each(['infinity', '2999-01-01Z'])(
  '§36: a row that says %s keeps the times out of receipts for an hour at most',
  async (from) => {
    await using database = await scoped(testDatabase())
    let nowMs = Date.now()
    await database.sql`update receipt_versions set issued_from = ${from}`
    const timed = new TimedReceipts(database.db, () => nowMs)
    await timed.start()
    nowMs += hourMs - 1
    expect(timed.issued()).toBe(false)
    nowMs += 1
    expect(timed.issued()).toBe(true)
  },
)
