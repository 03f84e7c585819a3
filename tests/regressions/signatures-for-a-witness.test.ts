import { expect, test } from 'bun:test'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { createCosigning } from '../../src/actors/log/cosigning.ts'
import { isOwnNote } from '../../src/actors/log/log-names.ts'
import { createLog } from '../../src/log.ts'
import { checkpointText, parseCheckpoint } from '../../src/protocol/log/checkpoint.ts'
import { noteText, parseNote } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { encodeBase64 } from '../../src/protocol/signing/base64.ts'
import { startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: with the database and one agent an attacker could have the gateway sign any log under a later name, as if an operator had named a fork, and all
 * gateways went on with it.
 * Cause: the entry for a witness whose checkpoint was lost was put behind whatever the database said, and signed.
 * Fix: it is put behind the log that this gateway knows, where one of its keys has signed it.
 */
const logKey = seededKey('77'.repeat(32))
const gateway = await fixture(startTestGateway({ ...stillLog, SVC_LOG_COSIGN_MS: '600000' }))
const { db, sql } = gateway.database

test('§36: a gateway signs nothing for a witness behind a log that it does not know', async () => {
  await insertReceipts(gateway.database, [receiptOf()])
  await gateway.gateway.sequencer.catchUp()
  const [row] = await sql<{ note: string }[]>`select note from log_checkpoints order by size desc limit 1`
  const seen = row?.note ?? ''
  const before = parseCheckpoint(parseNote(seen)?.text ?? '')
  if (before === null) throw new Error('no checkpoint')
  // What an attacker with the database writes: a later name, and a checkpoint of it that another key has signed.
  const origin = `${before.origin}/2`
  const text = checkpointText({ ...before, origin, size: before.size + 1 })
  const forged = noteText({ text, signatures: [logSigner(origin, seededKey('08'.repeat(32))).sign(text)] })
  await sql`update log_state set origin = ${origin}`
  await sql`insert into log_checkpoints (origin, size, note) values (${origin}, ${before.size + 1}, ${forged})`
  const hostile = {
    key: logSigner('hostile', seededKey('06'.repeat(32))).cosigningKey,
    ask: async () => ({
      status: 409,
      text: `${before.size}\n`,
      seen: encodeBase64(new TextEncoder().encode(seen)),
    }),
  }
  const options = { db, log: createLog('silent', () => {}), keys: [logKey], everyMs: 600_000 }
  const { sequencer } = gateway.gateway
  await createCosigning({ ...options, sequencer, witnesses: async () => [hostile] }).round()
  expect(await sql`select 1 from log_forks`).toHaveLength(0)
  const notes = await sql<{ note: string }[]>`select note from log_checkpoints where origin = ${origin}`
  expect(notes.map(({ note }) => isOwnNote(note, origin, [logKey]))).toEqual([false])
  expect(sequencer.fork()).not.toBeNull()
})
