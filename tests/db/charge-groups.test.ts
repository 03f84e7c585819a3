import { expect, test } from 'bun:test'
import { sessionOf } from '../../src/db/client.ts'
import { charges, commit, expectSound, groupsOf, reserved } from '../support/money/groups.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { fixture } from '../support/run/fixture.ts'
import { type TestDatabase, testDatabase } from '../support/run/postgres.ts'

const credit = 1_000_000n
const database = await fixture(testDatabase({ connectionsMax: 6 }), expectSound)

test('§26: a gateway of the version before charges, credits, builds batches and reads by the old names', async () => {
  const id = await fundedCustomer(database, credit)
  const { sql } = database
  // Its charge, beside one of today.
  const [old, today] = [await reserved(database, charges(id, 5)), await reserved(database, charges(id, 5))]
  const column = (pick: (row: (typeof old.rows)[number]) => unknown) => `{${old.rows.map(pick).join()}}`
  const { receipts } = old
  await Promise.all([
    commit(database, today),
    sql.begin(async (tx) => {
      await commitReceipts(tx, receipts)
      await tx`select place, outcome from ledger_settle(${column(({ id: one }) => one)}::text::text[],
        ${column(({ chargedWei }) => chargedWei.toString())}::text::numeric[], ${column(({ shareWei }) => shareWei.toString())}::text::numeric[],
        ${column(({ feeWei }) => feeWei.toString())}::text::numeric[], ${column(({ receiptHash }) => receiptHash)}::text::text[],
        ${column(({ node }) => node)}::text::text[], ${column(({ kind }) => kind)}::text::text[], ${column(() => false)}::text::boolean[],
        ${column(({ debit }) => debit)}::text::text[], ${column(({ release }) => release)}::text::text[],
        ${column(({ payout }) => payout)}::text::text[], ${column(({ fee }) => fee)}::text::text[], null)`
    }),
  ])
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 5, moved: false }])
  await expectSound(database)
  // Its batch takes a share of a group by the view, which makes rows of all of them; a second builder finds it changed.
  const chosen = today.rows[2]?.payout ?? ''
  const take = (batch: string) =>
    sql`update payouts p set settlement_status = 'batched', batch_id = ${batch}, updated_at = now()
      from (select ${chosen} as id) as q where p.entry_id = q.id and p.settlement_status = 'pending'`
  const holder = sessionOf(sql)
  try {
    await holder`begin`
    await holder`update payouts set settlement_status = 'batched', batch_id = 'bat_a' where entry_id = ${chosen}`
    const second = take('bat_b').then(
      () => null,
      ({ code }: { code: string }) => code,
    )
    await holder`commit`
    expect(['40001', null]).toContain(await second)
  } finally {
    await holder.end()
  }
  const [batched] = await sql`select batch_id, settlement_status from payout_rows where entry_id = ${chosen}`
  expect(batched).toEqual({ batch_id: 'bat_a', settlement_status: 'batched' })
  expect(await groupsOf(database, id)).toMatchObject([{ rows: 5, moved: true }])
  await sql`update payouts set settlement_status = 'pending', batch_id = null where batch_id = 'bat_a'`
  await expectSound(database)
})

async function commitReceipts(
  tx: { unsafe: TestDatabase['sql']['unsafe'] },
  receipts: readonly { readonly text: string; readonly hash: string; readonly customerId: string }[],
): Promise<void> {
  // As that version sends them: objects, and no mark.
  const rows = receipts.map(({ text, hash, customerId }) => ({
    ...(JSON.parse(text) as object),
    hash,
    customer_id: customerId,
    status: 'accepted',
    billed: true,
  }))
  await tx.unsafe('select receipts_insert($1::text::json)', [JSON.stringify(rows)])
}
