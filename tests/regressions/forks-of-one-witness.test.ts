import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { seededKey } from '../../src/actors/accounts/seeded-key.ts'
import { type AskedWitness, createCosigning } from '../../src/actors/log/cosigning.ts'
import { openPrivateFolder } from '../../src/host/private-files.ts'
import { createLog } from '../../src/log.ts'
import { createWitness } from '../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../src/node/witness/witness-memory.ts'
import { answerWitness } from '../../src/node/witness/witness-routes.ts'
import { parseCheckpoint } from '../../src/protocol/log/checkpoint.ts'
import { noteKeyText, parseNote, parseNoteKey } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { encodeBase64 } from '../../src/protocol/signing/base64.ts'
import { startTestGateway } from '../support/gateways/http-gateway.ts'
import { receiptOf } from '../support/money/forging.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { fixture } from '../support/run/fixture.ts'

/**
 * Symptom: after a database was put back, one agent could have the log name each checkpoint that was lost, until there was room for none: witnesses
 * that had signed another one could not go on with the log any more.
 * Cause: each checkpoint that a witness shows as its last one, and that a key of the log has signed, got an entry, of at most 64. Anybody has read them.
 * Later each process named one for it, and another one after each start.
 * Fix: of each witness one is named, and the database says for which it was.
 */
const logKey = seededKey('77'.repeat(32))
let kept: string | null = null
const logMemory = { read: () => kept, write: (text: string) => (kept = text) }
const env = { SVC_LOG_INTERVAL_MS: '5000', SVC_LOG_COSIGN_MS: '600000' }
const gateway = await fixture(startTestGateway(env, undefined, { logMemory }))
const { db, sql } = gateway.database
const scratch = mkdtempSync(join(tmpdir(), 'penstock-fork-'))
afterAll(() => rmSync(scratch, { recursive: true }))

async function grow(): Promise<string> {
  await insertReceipts(gateway.database, [receiptOf()])
  await gateway.gateway.sequencer.catchUp()
  const [row] = await sql<{ note: string }[]>`select note from log_checkpoints order by size desc limit 1`
  return row?.note ?? ''
}
const tables = 'log_entries log_receipts log_tiles log_state log_checkpoints receipt_rows'.split(' ')
async function putBack(): Promise<void> {
  for (const table of tables) {
    const overriding = table === 'receipt_rows' ? 'overriding system value' : ''
    await sql.unsafe(`delete from ${table}; insert into ${table} ${overriding} select * from kept_${table}`)
  }
}
const forks = async () => (await sql`select 1 from log_forks`).length
const cosigningBy = (witness: AskedWitness) => {
  const options = { db, log: createLog('silent', () => {}), keys: [logKey], everyMs: 600_000 }
  return createCosigning({ ...options, sequencer: gateway.gateway.sequencer, witnesses: async () => [witness] })
}

test('§36: one witness has the log name one of the checkpoints that were lost, and leaves room for the others', async () => {
  await grow()
  const { origin } = parseCheckpoint(parseNote(await grow())?.text ?? '') ?? { origin: '' }
  for (const table of tables) await sql.unsafe(`create table kept_${table} as table ${table}`)
  const lost: string[] = []
  for (let at = 0; at < 5; at++) lost.push(await grow())
  // An honest one has signed the third of them.
  const memory = openWitnessMemory(openPrivateFolder(join(scratch, 'honest')))
  memory.keep({ origin, keys: [noteKeyText(logSigner(origin, logKey).key)], note: lost[2] ?? '' })
  const witness = createWitness({ memory, identity: seededKey('05'.repeat(32)), log: createLog('silent', () => {}) })
  await putBack()
  await grow()
  const json = { reason: 'restored', confirm: 'NAME THE FORK' }
  expect((await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json })).status).toBe(200)
  expect(await forks()).toBe(1)
  const shows = [...lost]
  const hostile: AskedWitness = {
    key: logSigner('hostile', seededKey('06'.repeat(32))).cosigningKey,
    ask: async () => {
      const note = shows.shift() ?? ''
      const size = parseCheckpoint(parseNote(note)?.text ?? '')?.size
      return { status: 409, text: `${size}\n`, seen: encodeBase64(new TextEncoder().encode(note)) }
    },
  }
  const [one, other] = [cosigningBy(hostile), cosigningBy(hostile)]
  for (const process of [one, one, other, other, cosigningBy(hostile)]) {
    await grow()
    await process.round()
  }
  expect(shows).toEqual([])
  expect(await forks()).toBe(2)
  const key = parseNoteKey(witness.key)
  if (key === null) throw new Error('a witness without a key')
  const honest = cosigningBy({
    key,
    ask: async (body, extra) => {
      const answer = answerWitness(witness, new Request('http://witness', { headers: { ...extra } }), body)
      return { status: answer.status, text: await answer.text(), seen: answer.headers.get('x-svc-log-seen') }
    },
  })
  expect(await honest.round()).toBe(0)
  expect(await honest.round()).toBe(1)
  expect(await forks()).toBe(3)
})
