import { expect, test } from 'bun:test'
import { receiptOf } from '../support/money/forging.ts'
import { holdLog } from '../support/money/held-log.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { turnedLog } from '../support/money/turned-log.ts'
import { scoped } from '../support/run/fixture.ts'
import { lockWaits } from '../support/run/lock-waits.ts'
import { testDatabase } from '../support/run/postgres.ts'
import { waitUntil } from '../support/run/wait-until.ts'

/**
 * Symptom: an audit was exported, or purged, or a gateway ended, while the log lacked what had been committed before.
 * Cause: `catchUp` left the log alone where another gateway was at its turn, and where neither receipts nor ledger had moved since a look of the last 10 s.
 * Fix: it looks always, behind the turn of another gateway.
 */
async function loggedDatabase() {
  const database = await scoped(testDatabase())
  const { sql } = database
  let nodes = 0
  return Object.assign(database, turnedLog(database.db), {
    statement: () =>
      sql`insert into payee_statements (node_id, payee, signed_at, signature_ed25519) values (${`n${nodes++}`}, 'p', now(), 's')`,
    payees: async () => (await sql`select 1 from log_entries where kind = 'payee'`).length,
  })
}

test('§31: a log that is caught up has what was committed, though nothing else moved', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, turn, statement, payees } = database
  await start()
  await sequencer.catchUp()
  await statement()
  await sequencer.catchUp()
  expect(await payees()).toBe(1)
  await statement()
  await turn(10_000)
  expect(await payees()).toBe(2)
  await sequencer.stop()
})

test('§31: a log that is caught up has what was committed, though another gateway was at its turn', async () => {
  await using database = await loggedDatabase()
  const { sequencer, start, sql } = database
  await start()
  await sequencer.catchUp()
  const endTurn = await holdLog(sql)
  await insertReceipts(database, [receiptOf()])
  const catching = sequencer.catchUp()
  await waitUntil('it waits for the turn', async () => (await lockWaits(sql, '%(7413, 80)%')) === 1)
  await endTurn()
  await catching
  expect([...(await sql`select sum(entries)::int as logged from log_receipts`)]).toEqual([{ logged: 1 }])
  await sequencer.stop()
})
