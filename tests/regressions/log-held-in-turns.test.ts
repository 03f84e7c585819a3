import { expect, test } from 'bun:test'
import { openDatabase } from '../../src/db/client.ts'
import { sequencingPids } from '../../src/db/queries/log/log.ts'
import { createLog } from '../../src/log.ts'
import { receiptOf } from '../support/money/forging.ts'
import { holdLog } from '../support/money/held-log.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { turnedLog } from '../support/money/turned-log.ts'
import { scoped } from '../support/run/fixture.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: a gateway whose log went on was shown as stopped, and promised nothing. Another one, whose log had not begun, promised receipts that it did not take.
 * Cause: a look counted as ended only where neither receipts nor ledger were held back, also when another transaction held the other one each time. And an
 * open transaction in the ledger keeps everything out of a log that has no cutoff yet, but counted for the ledger alone.
 * Fix: the log is stopped when one of them is held back for five minutes. Before the first cutoff either of them ends the promises. And a look that found
 * another gateway at its turn counted as ended, though that one came to no end: then the log has to have gone on without it.
 */
async function loggedDatabase() {
  const database = await scoped(testDatabase())
  /** A session that can have a transaction open in a table. */
  const session = (table: string) => {
    const { sql, close } = openDatabase({ url: database.url, connectionsMax: 1 })
    return {
      begin: async () => {
        await sql`begin`
        await sql.unsafe(`delete from ${table} where false`)
      },
      end: () => sql`commit`,
      close,
    }
  }
  let text = ''
  const log = createLog('info', (more) => {
    text += more
  })
  /** Lines of the log so far, without their times. */
  const told = () => {
    log.flush()
    const lines = text.split('\n').filter((line) => line !== '')
    return lines.map((line) => {
      const { event, source, pids, held_ms } = JSON.parse(line)
      return { event, source, ...(pids === undefined ? {} : { pids, held_ms }) }
    })
  }
  return Object.assign(database, turnedLog(database.db, log), { session, told })
}

test('§31: a log that takes receipts and ledger by turns has not stopped', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, session, sql } = database
  await start()
  const [receipts, ledger] = [session('receipt_rows'), session('ledger_rows')]
  try {
    await ledger.begin()
    await turn()
    // In each turn one of them is open that was open in the turn before, and the other one has ended since.
    for (let seconds = 0; seconds < 400; seconds += 20) {
      await receipts.begin()
      await turn(10_000)
      await ledger.end()
      await ledger.begin()
      await insertReceipts(database, [receiptOf()])
      await turn(10_000)
      await receipts.end()
    }
    const [logged] = await sql<{ count: number }[]>`select coalesce(sum(entries), 0)::int as count from log_receipts`
    expect(logged?.count).toBeGreaterThan(10)
    expect([sequencer.stopped(), sequencer.takesReceipts()]).toEqual([false, true])
    await ledger.end()
  } finally {
    await receipts.close()
    await ledger.close()
    await sequencer.stop()
  }
})

test('§31: a log that cannot begin for a transaction that is open in the ledger promises nothing', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, session, sql } = database
  const ledger = session('ledger_rows')
  try {
    await ledger.begin()
    await start()
    await insertReceipts(database, [receiptOf()])
    await turn(29_999)
    expect(sequencer.takesReceipts()).toBe(true)
    await turn(1)
    expect(await sql`select 1 from log_entries`).toHaveLength(0)
    expect([sequencer.takesReceipts(), sequencer.stopped()]).toEqual([false, false])
    await ledger.end()
    await turn()
    expect(sequencer.takesReceipts()).toBe(true)
    // Once the log has its cutoff, the ledger keeps no receipt out.
    await turn()
    await ledger.begin()
    for (let turns = 0; turns < 3; turns++) await turn(20_000)
    expect([sequencer.takesReceipts(), sequencer.stopped()]).toEqual([true, false])
    await ledger.end()
  } finally {
    await ledger.close()
    await sequencer.stop()
  }
})

test('§31: a log that another gateway is at, and comes to no end, promises nothing after half a minute and has stopped after five', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, told, sql, db } = database
  await start()
  await turn()
  const endTurn = await holdLog(sql)
  const state = () => [sequencer.takesReceipts(), sequencer.stopped()]
  // With nothing to write the log lacks nothing.
  await turn(400_000)
  expect(state()).toEqual([true, false])
  await insertReceipts(database, [receiptOf()])
  await turn(1_000)
  await turn(29_999)
  expect(state()).toEqual([true, false])
  await turn(1)
  expect(state()).toEqual([false, false])
  await turn(270_000)
  expect(state()).toEqual([false, true])
  const pids = (await sequencingPids(db)).join()
  expect(told()).toEqual([{ event: 'log_held_back', source: 'turn', pids, held_ms: 270_001 }])
  await endTurn()
  await waitUntil('the end of the other turn', async () => (await sequencingPids(db)).length === 0)
  await turn()
  expect(state()).toEqual([true, false])
  expect(told().slice(1)).toEqual([{ event: 'log_goes_on', source: 'turn' }])
  await sequencer.stop()
})

test('§31: what is known to be missing in the log stays so while an open transaction hides what came later', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, session, sql } = database
  await start()
  await turn()
  const [endTurn, receipts] = [await holdLog(sql), session('receipt_rows')]
  try {
    await insertReceipts(database, [receiptOf()])
    await turn(1_000)
    await turn(5_000)
    await receipts.begin()
    await turn(5_000)
    await turn(5_000)
    await receipts.end()
    await turn(14_999)
    expect(sequencer.takesReceipts()).toBe(true)
    await turn(1)
    expect(sequencer.takesReceipts()).toBe(false)
  } finally {
    await receipts.close()
    await endTurn()
    await sequencer.stop()
  }
})

test('§31: a log that another gateway writes in each moment in which this one would has not stopped', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, sql, db } = database
  await start()
  const other = turnedLog(db)
  await other.start()
  // The other one's look is a little older each time: it never has what this one has found last.
  for (let turns = 0; turns < 35; turns++) {
    await other.turn(10_000)
    await insertReceipts(database, [receiptOf()])
    const endTurn = await holdLog(sql)
    await turn(10_000)
    await endTurn()
  }
  expect([sequencer.takesReceipts(), sequencer.stopped()]).toEqual([true, false])
  await sequencer.stop()
  await other.sequencer.stop()
})
