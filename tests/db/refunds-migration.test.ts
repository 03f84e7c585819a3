import { expect, test } from 'bun:test'
import { connect } from '../../src/db/client.ts'
import { applyMigrations, migrations } from '../../src/db/migrate.ts'
import { emptyDatabase } from '../support/run/postgres.ts'

/** The first that knows refunds. */
const all = migrations()
const before = all.slice(
  0,
  all.findIndex(({ statements }) => statements.some((text) => text.includes('ledger_entries_refund'))),
)

test('§14: fees of receipts that were rejected before stay with the operator, and are marked; the others are earned', async () => {
  expect(before.length).toBeGreaterThan(0)
  const database = await emptyDatabase()
  const sql = connect(database.url, { max: 1 })
  try {
    await sql.begin((tx) => applyMigrations(tx, before))
    for (const status of ['accepted', 'held', 'rejected', 'finalized']) {
      await sql`insert into receipts (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind,
          model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, status, billed)
        values (${status}, 'gateway', 'r', 'hosted_chat', 'n', 'c', 'r', 'k', 'm', 1, 1, now(), now(), 'cus', ${status}, true)`
      const fees = status === 'rejected' ? ['fee', 'share'] : ['fee']
      for (const fee of fees) {
        await sql`insert into protocol_fees (entry_id, receipt_hash, amount_wei) values (${`${fee}_${status}`}, ${status}, 1)`
      }
    }
    await sql.begin((tx) => applyMigrations(tx, all))
    const rows = await sql<{ id: string; status: string }[]>`
      select entry_id as id, status from protocol_fees order by entry_id`
    expect(rows.map(({ id, status }) => [id, status])).toEqual([
      ['fee_accepted', 'earned'],
      ['fee_finalized', 'earned'],
      ['fee_held', 'earned'],
      ['fee_rejected', 'kept'],
      ['share_rejected', 'kept'],
    ])
  } finally {
    await sql.end()
    await database.drop()
  }
})
