import { expect, test } from 'bun:test'
import { parseCheckpoint } from '../../src/protocol/log/checkpoint.ts'
import { parseNote } from '../../src/protocol/log/note.ts'
import { startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { receiptOf } from '../support/money/forging.ts'
import { holdLog } from '../support/money/held-log.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: with the database alone an attacker could have a gateway forget that the log had been put back: it went on with the older log, and overwrote the
 * checkpoint that it keeps in its data folder.
 * Cause: a gateway that has found the fork looks in the database whether another one has named it since, and believed the name that stands there.
 * Fix: it believes a name under which a key of the log has signed where the log stands.
 */
let kept: string | null = null
const logMemory = { read: () => kept, write: (text: string) => (kept = text) }
const env = { ...stillLog, SVC_LOG_COSIGN_MS: '600000' }
const gateway = await fixture(startTestGateway(env, undefined, { logMemory }))
const { sql } = gateway.database
const { sequencer } = gateway.gateway

async function grow(): Promise<void> {
  await insertReceipts(gateway.database, [receiptOf()])
  await sequencer.catchUp()
}
const tables = 'log_entries log_receipts log_tiles log_state log_checkpoints receipt_rows'.split(' ')
const size = async () => Number((await sql`select size from log_state`)[0]?.size)

test('§36: a gateway does not forget a fork because the database says another name', async () => {
  await grow()
  for (const table of tables) await sql.unsafe(`create table kept_${table} as table ${table}`)
  await grow()
  const seen = kept
  for (const table of tables) {
    const overriding = table === 'receipt_rows' ? 'overriding system value' : ''
    await sql.unsafe(`delete from ${table}; insert into ${table} ${overriding} select * from kept_${table}`)
  }
  await grow()
  expect(sequencer.fork()).toBe(seen)
  const older = await size()
  // What an attacker with the database does: another name for a moment, in which no gateway can write the log.
  const letGo = await holdLog(sql)
  await sql`update log_state set origin = origin || '/2'`
  await sequencer.catchUp()
  await sql`update log_state set origin = ${parseCheckpoint(parseNote(seen ?? '')?.text ?? '')?.origin ?? ''}`
  await letGo()
  await grow()
  expect([sequencer.fork(), kept, await size()]).toEqual([seen, seen, older])
})
