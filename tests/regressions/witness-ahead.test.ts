import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type AskedWitness, createCosigning } from '../../src/actors/log/cosigning.ts'
import { agentKey } from '../../src/actors/log/witnesses.ts'
import { headers } from '../../src/brand.ts'
import { openPrivateFolder } from '../../src/host/private-files.ts'
import { createLog } from '../../src/log.ts'
import { createWitness } from '../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../src/node/witness/witness-memory.ts'
import { answerWitness } from '../../src/node/witness/witness-routes.ts'
import { textHash } from '../../src/protocol/receipts/receipt.ts'
import { signingKey } from '../../src/protocol/signing/ed25519.ts'
import { startTestGateway, stillLog } from '../support/gateways/http-gateway.ts'
import { insertReceipts } from '../support/money/insert-receipts.ts'
import { scoped } from '../support/run/fixture.ts'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-witness-ahead-'))
afterAll(() => rmSync(scratch, { recursive: true }))
const log = createLog('silent', () => {})

test('§31: a witness that has signed what another process appended meanwhile exposes no fork', async () => {
  await using gateway = await scoped(startTestGateway({ ...stillLog, SVC_LOG_COSIGN_MS: '600000' }))
  const { db } = gateway.database
  const { sequencer } = gateway.gateway
  let made = 0
  const grow = async (count: number) => {
    const rows = Array.from({ length: count }, () => {
      const text = `{"issuer":"gateway","request_id":"req_a${made++}","job_id":null,"kind":"hosted_chat","node_id":"n","node_class":"c","runtime_id":"r","runtime_kind":"k","model_id":"m","prompt_tokens":1,"completion_tokens":1,"started_at":"2026-11-20T15:59:59.000Z","completed_at":"2026-11-20T16:00:00.000Z"}`
      return { hash: textHash(text), text, customerId: 'cus_a' }
    })
    await insertReceipts(gateway.database, rows)
    await sequencer.catchUp()
  }
  const identity = signingKey(new Uint8Array(32).fill(2))
  const memory = openWitnessMemory(openPrivateFolder(scratch))
  memory.give((await gateway.gateway.publicLog.keys()).keys)
  const witness = createWitness({ memory, identity, log })
  const ask: AskedWitness['ask'] = async (body, extra) => {
    const answer = answerWitness(witness, new Request('http://witness', { headers: extra }), body)
    return { status: answer.status, text: await answer.text(), seen: answer.headers.get(headers.logSeen) }
  }
  const cosigning = (asking: AskedWitness['ask']) =>
    createCosigning({
      db,
      log,
      keys: [signingKey(Buffer.from('77'.repeat(32), 'hex'))],
      sequencer,
      witnesses: async () => [{ key: agentKey(Buffer.from(identity.publicKey, 'base64url')), ask: asking }],
      everyMs: 600_000,
    })
  const ahead = cosigning(ask)
  await grow(3)
  expect(await ahead.round()).toBe(1)
  // This process has read its checkpoint; before its question arrives, the other one appends and has that signed.
  let between = true
  const behind = cosigning(async (...question) => {
    if (between) {
      between = false
      await grow(4)
      expect(await ahead.round()).toBe(1)
    }
    return ask(...question)
  })
  expect(await behind.round()).toBe(0)
  expect(between).toBe(false)
  expect(sequencer.fork()).toBeNull()
  await grow(1)
  expect(await behind.round()).toBe(1)
})
