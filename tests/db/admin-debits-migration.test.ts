import { expect, test } from 'bun:test'
import { connect } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/** Those of a version that does not know admin debits. */
const all = migrations()
const before = all.slice(
  0,
  all.findIndex(({ statements }) => statements.some((text) => text.includes("'admin_debit'"))),
)

test('§13: the ledger of the version before is kept as it is, its kinds keep their rule, and an admin debit has no reservation', async () => {
  expect(before.length).toBeGreaterThan(0)
  const database = await emptyDatabase()
  const sql = connect(database.url, { max: 1 })
  const add = (id: string, kind: string, reservation: string | null) =>
    sql`insert into ledger_entries (entry_id, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei, reservation_id)
      values (${id}, 'cus', ${kind}, 1, 1, 0, ${reservation})`.then(
      () => null,
      ({ code }: { code: string }) => code,
    )
  try {
    await sql.begin((tx) => applyMigrations(tx, before))
    await sql`insert into customers (customer_id, display_name, token_hash, webhook_secret_sealed, balance_wei)
      values ('cus', 'c', 'h', 's', 1)`
    expect(await add('credit', 'admin_credit', null)).toBeNull()
    for (const kind of ['reserve', 'debit', 'release', 'refund']) expect(await add(kind, kind, 'req')).toBeNull()
    expect(await add('early', 'admin_debit', null)).toBe('23514')
    const rows = () => sql`select entry_id, seq, customer_id, kind, amount_wei, balance_after_wei, reserved_after_wei,
      reservation_id, private_job_id, receipt_hash, reason, created_at from ledger_entries order by seq`
    const kept = [...(await rows())]
    await sql.begin((tx) => applyMigrations(tx, all))
    expect([...(await rows())]).toEqual(kept)

    expect(await add('taken', 'admin_debit', null)).toBeNull()
    expect(await add('bound', 'admin_debit', 'req')).toBe('23514')
    expect(await add('credit2', 'admin_credit', null)).toBeNull()
    expect(await add('credit3', 'admin_credit', 'req2')).toBe('23514')
    for (const kind of ['reserve', 'debit', 'release', 'refund'])
      expect(await add(`${kind}2`, kind, null)).toBe('23514')
  } finally {
    await sql.end()
    await database.drop()
  }
})

test('§31: what operators decided on is found by an index of its own, among all that requests write', async () => {
  const database = await emptyDatabase()
  const sql = connect(database.url, { max: 1 })
  try {
    await sql.begin((tx) => applyMigrations(tx, all))
    await sql`set enable_seqscan = off`
    for (const kind of ['admin_credit', 'refund', 'admin_debit']) {
      const plan = await sql.unsafe<{ 'QUERY PLAN': string }[]>(
        `explain select entry_id from ledger_entries l where l.kind in ('${kind}') order by l.seq`,
      )
      expect([kind, plan.map((line) => line['QUERY PLAN']).join()]).toEqual([
        kind,
        expect.stringContaining('ledger_entries_decided'),
      ])
    }
  } finally {
    await sql.end()
    await database.drop()
  }
})
