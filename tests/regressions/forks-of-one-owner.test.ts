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
 * Symptom: after a database was put back, 64 agents of one customer left no room for what the agents of others had signed of the log that was lost: those could
 * not go on with the log any more.
 * Cause: the log names one lost checkpoint for each witness, 64 in all, and a customer can have any number of agents.
 * Fix: the agents of one customer get at most half of the room that all others leave them.
 */
const logKey = seededKey('77'.repeat(32))
let kept: string | null = null
const logMemory = {
  read: () => kept,
  write: (text: string) => {
    kept = text
  },
}
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
/** One round that asks this witness alone. */
const roundOf = (witness: AskedWitness): Promise<number> => {
  const options = { db, log: createLog('silent', () => {}), keys: [logKey], everyMs: 600_000 }
  const { sequencer } = gateway.gateway
  return createCosigning({ ...options, sequencer, witnesses: async () => [witness] }).round()
}
/** An agent that shows a checkpoint that anybody could read, and signs nothing. */
const shows = (at: number, owner: string, note: string): AskedWitness => ({
  key: logSigner(`agent-${at}`, seededKey('06'.repeat(32))).cosigningKey,
  owner,
  ask: async () => {
    const size = parseCheckpoint(parseNote(note)?.text ?? '')?.size
    return { status: 409, text: `${size}\n`, seen: encodeBase64(new TextEncoder().encode(note)) }
  },
})
/** An honest agent that has signed this one. */
function signed(at: number, owner: string, note: string): AskedWitness {
  const { origin } = parseCheckpoint(parseNote(note)?.text ?? '') ?? { origin: '' }
  const memory = openWitnessMemory(openPrivateFolder(join(scratch, `agent-${at}`)))
  memory.keep({ origin, keys: [noteKeyText(logSigner(origin, logKey).key)], note })
  const identity = seededKey(at.toString(16).padStart(2, '0').repeat(32))
  const witness = createWitness({ memory, identity, log: createLog('silent', () => {}) })
  const key = parseNoteKey(witness.key)
  if (key === null) throw new Error('a witness without a key')
  return {
    key,
    owner,
    ask: async (body, extra) => {
      const answer = answerWitness(witness, new Request('http://witness', { headers: { ...extra } }), body)
      return { status: answer.status, text: await answer.text(), seen: answer.headers.get('x-svc-log-seen') }
    },
  }
}

test('§36: the agents of one customer leave room for the agents of others', async () => {
  await grow()
  for (const table of tables) await sql.unsafe(`create table kept_${table} as table ${table}`)
  const lost: string[] = []
  for (let at = 0; at < 40; at++) lost.push(await grow())
  await putBack()
  await grow()
  const json = { reason: 'restored', confirm: 'NAME THE FORK' }
  expect((await gateway.ask('POST', '/v1/admin/log/fork', { as: 'admin', json })).status).toBe(200)
  for (let at = 0; at < 36; at++) await roundOf(shows(at, 'cus_hostile', lost[at] ?? ''))
  expect(await forks()).toBe(33)
  await roundOf(shows(100, 'cus_other', lost[36] ?? ''))
  expect(await forks()).toBe(34)
  for (const [at, owner] of ['cus_a', 'cus_b'].entries()) {
    const honest = signed(100 + at, owner, lost[37 + at] ?? '')
    expect([await roundOf(honest), await roundOf(honest)]).toEqual([0, 1])
  }
  expect(await forks()).toBe(36)
  const owners = await sql<{ owner: string | null }[]>`select distinct owner from log_forks order by owner nulls first`
  expect(owners.map(({ owner }) => owner)).toEqual([null, 'cus_a', 'cus_b', 'cus_hostile', 'cus_other'])
})
