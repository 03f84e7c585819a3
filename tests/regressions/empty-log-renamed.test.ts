import { expect, test } from 'bun:test'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { createCosigning } from '../../src/actors/log/cosigning.ts'
import { isOwnNote } from '../../src/actors/log/log-names.ts'
import { createLog } from '../../src/log.ts'
import { checkpointText, parseCheckpoint } from '../../src/protocol/log/checkpoint.ts'
import { emptyRoot } from '../../src/protocol/log/merkle-log.ts'
import { noteText, parseNote } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { encodeBase64 } from '../../src/protocol/signing/base64.ts'
import { startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { scoped } from '../support/run/fixture.ts'

/**
 * Symptom: with the database alone somebody could have the gateway begin another log under a later name and sign it, as if an operator had named a fork; with
 * one agent, an entry in it that says that all of the log was lost.
 * Cause: an empty log needs no checkpoint that a key has signed, whatever its name.
 * Fix: an empty log has the name of one of the gateway's keys. One that goes on under another name begins with the entry that says so.
 */
const logKey = seededKey('77'.repeat(32))

async function emptied() {
  const gateway = await scoped(startTestGateway({ ...stillLog, SVC_LOG_COSIGN_MS: '600000' }))
  const { sql } = gateway.database
  const grow = async () => {
    await insertReceipts(gateway.database, [receiptOf()])
    await gateway.gateway.sequencer.catchUp()
  }
  await grow()
  const [row] = await sql<{ note: string }[]>`select note from log_checkpoints order by size desc limit 1`
  const seen = row?.note ?? ''
  const { origin: before = '', size = 0 } = parseCheckpoint(parseNote(seen)?.text ?? '') ?? {}
  const origin = `${before}/2`
  for (const table of ['log_entries', 'log_receipts', 'log_tiles', 'log_checkpoints'])
    await sql.unsafe(`delete from ${table}`)
  await sql`update log_state set origin = ${origin}, size = 0, root = ${Buffer.from(emptyRoot())}, receipts_to = 0, ledger_to = 0`
  const signed = async () => {
    const notes = await sql<{ note: string }[]>`select note from log_checkpoints where origin = ${origin}`
    return notes.filter(({ note }) => isOwnNote(note, origin, [logKey])).length
  }
  return Object.assign(gateway, { origin, seen, size, grow, signed })
}

test('§36: a gateway begins no log under a later name', async () => {
  await using gateway = await emptied()
  await gateway.grow()
  expect(await gateway.signed()).toBe(0)
  expect(gateway.gateway.sequencer.fork()).toBe(gateway.seen)
})

test('§36: and says in none for a witness that another was lost', async () => {
  await using gateway = await emptied()
  const { origin, seen, size } = gateway
  const { db, sql } = gateway.database
  // A checkpoint to ask for, which another key has signed.
  const text = checkpointText({ origin, size: 1, root: emptyRoot() })
  const forged = noteText({ text, signatures: [logSigner(origin, seededKey('08'.repeat(32))).sign(text)] })
  await sql`insert into log_checkpoints (origin, size, note) values (${origin}, 1, ${forged})`
  const hostile = {
    key: logSigner('hostile', seededKey('06'.repeat(32))).cosigningKey,
    ask: async () => ({ status: 409, text: `${size}\n`, seen: encodeBase64(new TextEncoder().encode(seen)) }),
  }
  const options = { db, log: createLog('silent', () => {}), keys: [logKey], everyMs: 600_000 }
  const { sequencer } = gateway.gateway
  await createCosigning({ ...options, sequencer, witnesses: async () => [hostile] }).round()
  expect(await sql`select 1 from log_forks`).toHaveLength(0)
  expect(await gateway.signed()).toBe(0)
})
