import { expect, test } from 'bun:test'
import { hasUnnamedEarnings, nodePayouts, settlementGroups } from '../../../src/db/queries/money/payouts.ts'
import type { NodeId } from '../../../src/ids.ts'
import { charges, commit, expectSound, groupsOf, neverGrouped, reserved } from '../../support/money/groups.ts'
import { fundedCustomer } from '../../support/money/ledger.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const database = await fixture(testDatabase(), expectSound)
const { db, sql } = database

const asText = (value: unknown) =>
  JSON.stringify(value, (_, each) => (typeof each === 'bigint' ? each.toString() : each))

/** The same, counted over all payouts. */
async function counted(nodeId: string, since: Date) {
  const rows = await sql<{ entry: string; status: string; payout: string; gross: string; unnamed: boolean }[]>`
    select entry_id as entry, settlement_status as status, amount_wei::text as payout, gross_wei::text as gross,
      earned_payee is null and settlement_status = 'pending' as unnamed
    from payouts where node_id = ${nodeId} and settlement_status <> 'void' and created_at >= ${since.toISOString()}::timestamptz
    order by created_at desc, entry_id desc`
  const sums = [...Map.groupBy(rows, ({ status }) => status)].map(([settlementStatus, of]) => ({
    settlementStatus,
    payoutCount: of.length,
    payoutWei: of.reduce((sum, { payout }) => sum + BigInt(payout), 0n),
    grossWei: of.reduce((sum, { gross }) => sum + BigInt(gross), 0n),
  }))
  return {
    entries: rows.map(({ entry }) => entry),
    sums: sums.toSorted((a, b) => (a.settlementStatus < b.settlementStatus ? -1 : 1)),
    unnamed: rows.some(({ unnamed }) => unnamed),
  }
}

test('§15: what one node has earned is what its payouts say: in groups, as rows, on hold and in a batch', async () => {
  const id = await fundedCustomer(database, 1_000_000n)
  await sql`insert into nodes (node_id, customer_id, name, kind, payout_address, visibility, privacy_class, node_class)
    values ('node_1', ${id}, 'n', 'agent', ${`0x${'a1'.repeat(20)}`}, 'public', 'public', 'gpu')`
  const unnamed = () => Promise.all(['node_0', 'node_1', 'node_none'].map((of) => hasUnnamedEarnings(db, of as NodeId)))
  await commit(database, await reserved(database, charges(id, 4)))
  expect(await unnamed()).toEqual([true, false, false])
  const [first] = await groupsOf(database, id)
  await sql`select charge_shares_move(${`{${first?.seq}}`}::text::bigint[])`
  expect(await unnamed()).toEqual([true, false, false])
  for (const [at, count] of [3, 1, 7, 2, 5, 6].entries()) {
    const work = at === 3 ? charges(id, count, { held: true }) : charges(id, count, at === 1 ? { chargedWei: 0n } : {})
    await commit(database, await reserved(database, work), at === 2 ? neverGrouped : 1)
  }
  expect((await groupsOf(database, id)).filter(({ moved }) => !moved).length).toBeGreaterThan(2)
  await sql`with taken as (
      update payout_rows set settlement_status = 'batched', batch_id = 'bat_1', payee = coalesce(payee, earned_payee, 'p')
      where entry_id in (select entry_id from payout_rows where not held order by entry_id limit 2) returning amount_wei)
    insert into payout_batches (batch_id, merkle_root, payout_count, total_amount_wei)
    select 'bat_1', '0xaa', count(*), sum(amount_wei) from taken`
  const [middle] = await sql<
    { at: string }[]
  >`select created_at as at from payouts order by created_at offset 8 limit 1`
  for (const nodeId of ['node_0', 'node_1', 'node_none']) {
    for (const since of [new Date(0), new Date(middle?.at ?? 0)]) {
      const { entries, sums } = await counted(nodeId, since)
      expect(asText(await settlementGroups(db, since, nodeId))).toBe(asText(sums))
      for (const limit of [1, 2, 4, 1_000])
        expect((await nodePayouts(db, nodeId, since, limit)).map(({ entryId }) => entryId)).toEqual(
          entries.slice(0, limit),
        )
    }
  }
})
