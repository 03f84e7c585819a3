import { expect, test } from 'bun:test'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { turnedLog } from '../support/money/turned-log.ts'
import { fixture } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { sessionOf } from '../support/run/session.ts'

/**
 * Symptom: a monitor said of an honest gateway that a batch pays for a receipt that the log does not hold. While a session had a transaction open in the
 * receipts, it said so for as long as that lasted.
 * Cause: receipts entered the log up to where they were a turn before, and batches as they were by then: one that was made in between came before the newest
 * receipts that it pays for.
 * Fix: a batch waits until the log has all receipts that there were when the gateway first saw the batch.
 */
const database = await fixture(testDatabase())
const { db, sql } = database

const hashOf = (digit: string) => `0x${digit.repeat(64)}`
const batchOf = (id: string) => sql`
  insert into payout_batches (batch_id, merkle_root, payout_count, total_amount_wei, status, submitted_tx_hash, settlement_block_number,
    settlement_block_hash)
  values (${id}, ${hashOf('e')}, 1, 1, 'completed', ${hashOf('a')}, '41', ${hashOf('b')})`
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
    await insertReceipts(database, [receiptOf()])
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
