import { expect, test } from 'bun:test'
import { sessionOf } from '../../src/db/client.ts'
import { receiptOf } from '../support/money/forging.ts'
import { holdLog } from '../support/money/held-log.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { fundedCustomer } from '../support/money/ledger.ts'
import { payFor } from '../support/money/money.ts'
import { turnedLog } from '../support/money/turned-log.ts'
import { fixture } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a monitor said of an honest gateway that a batch pays for a receipt that the log does not hold. While a session had a transaction open in the
 * receipts, it said so for as long as that lasted.
 * Cause: receipts entered the log up to where they were a turn before, and batches as they were by then: one that was made in between came before the newest
 * receipts that it pays for.
 * Fix: a batch waits until the log has all receipts that it pays for. Before, it waited for all receipts that there were when the gateway first saw it: under
 * paid load for an interval more than the specification says, and a log that was caught up lacked it.
 */
const database = await fixture(testDatabase())
const { db, sql } = database
const customerId = await fundedCustomer(database, 1_000n)

const hashOf = (digit: string) => `0x${digit.repeat(64)}`
/** Pays for one receipt, which comes with it. */
async function batchOf(id: string): Promise<void> {
  await sql`
    insert into payout_batches (batch_id, merkle_root, payout_count, total_amount_wei, status, submitted_tx_hash, settlement_block_number,
      settlement_block_hash)
    values (${id}, ${hashOf('e')}, 1, 1, 'completed', ${hashOf('a')}, '41', ${hashOf('b')})`
  const hash = await payFor(database, { customerId, nodeId: 'node_a', amountWei: 100n })
  await sql`update payouts set settlement_status = 'finalized', batch_id = ${id} where receipt_hash = ${hash}`
}
/** Where the entries of a batch are. */
const placesOf = async (id: string) =>
  (
    await sql<{ kind: string; place: number }[]>`
      select kind, entry_index::int as place from log_entries where subject = ${id} and kind in ('batch', 'settled') order by entry_index`
  ).map(({ kind, place }) => ({ kind, place }))
const receiptsLogged = async () => {
  const [row] = await sql<{ entries: number; last: number }[]>`
    select coalesce(sum(entries), 0)::int as entries, coalesce(max(first_index + entries), 0)::int as last from log_receipts`
  return row ?? { entries: 0, last: 0 }
}

test('§31: a batch that is made between two turns enters the log behind the receipts that it pays for, however long they wait', async () => {
  const { sequencer, start, turn } = turnedLog(db)
  await start()
  // For its receipt there is something to do in the turn behind the next.
  await insertReceipts(database, [receiptOf()])
  await turn()
  const open = sessionOf(sql)
  try {
    // Not among the writers that this turn has seen.
    await open`begin`
    await open`delete from receipt_rows where false`
    await batchOf('bat_paid')
    for (let turns = 0; turns < 3; turns++) {
      await turn()
      expect([(await receiptsLogged()).entries, await placesOf('bat_paid')]).toEqual([1, []])
    }
    await open`commit`
  } finally {
    await open.end()
  }
  await turn()
  await turn()
  const { entries, last } = await receiptsLogged()
  expect(entries).toBe(2)
  const places = await placesOf('bat_paid')
  expect(places.map(({ kind }) => kind)).toEqual(['batch', 'settled'])
  for (const { place } of places) expect(place).toBeGreaterThanOrEqual(last)
  // With nothing between it needs no more than one look.
  await batchOf('bat_later')
  await sequencer.catchUp({ heads: true })
  expect((await placesOf('bat_later')).map(({ kind }) => kind)).toEqual(['batch', 'settled'])
  await sequencer.stop()
})

test('§31: a log that is caught up has a batch that was made before, though further receipts come meanwhile', async () => {
  const { sequencer, start } = turnedLog(db)
  await start()
  await batchOf('bat_asked')
  const endTurn = await holdLog(sql)
  const catching = sequencer.catchUp()
  await waitUntil('it waits for the turn', async () => (await lockWaits(sql, '%(7413, 80)%')) === 1)
  await insertReceipts(database, [receiptOf()])
  await endTurn()
  await catching
  expect((await placesOf('bat_asked')).map(({ kind }) => kind)).toEqual(['batch', 'settled'])
  await sequencer.stop()
})

test('§31: behind a fence with a million receipts more a batch waits for the next look, which has a new one', async () => {
  const { sequencer, start } = turnedLog(db)
  await start()
  await batchOf('bat_far')
  const endTurn = await holdLog(sql)
  const catching = sequencer.catchUp()
  await waitUntil('it waits for the turn', async () => (await lockWaits(sql, '%(7413, 80)%')) === 1)
  const [row] = await sql<{ name: string }[]>`select pg_get_serial_sequence('receipt_rows', 'seq') as name`
  await sql`select setval(${row?.name ?? ''}, nextval(${row?.name ?? ''}) + 1000001)`
  await insertReceipts(database, [receiptOf()])
  await endTurn()
  await catching
  expect(await placesOf('bat_far')).toEqual([])
  await sequencer.catchUp()
  expect((await placesOf('bat_far')).map(({ kind }) => kind)).toEqual(['batch', 'settled'])
  await sequencer.stop()
})
