import { expect, test } from 'bun:test'
import { signersOf } from '../../../src/actors/log/log-names.ts'
import { createReceiptMacs } from '../../../src/actors/log/receipt-macs.ts'
import { parseCheckpoint } from '../../../src/protocol/log/checkpoint.ts'
import { checkNote, parseNote } from '../../../src/protocol/log/note.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { json, startTestGateway, stillLog, type TestGateway } from '../../support/gateways/http-gateway.ts'
import { issued, sequencerOf } from '../../support/money/forging.ts'
import { scoped } from '../../support/run/fixture.ts'

const [older, newer] = ['77'.repeat(32), '88'.repeat(32)]
const macsOf = (...seeds: readonly string[]) => createReceiptMacs(seeds)
const withKey = (...seeds: readonly string[]) => ({ ...stillLog, SVC_LOG_KEY: seeds.join(',') })

const isLogged = async (hash: string, on: TestGateway) =>
  (await on.ask('GET', `/v1/public/log/proof?receipt_hash=${hash}`)).status === 200
const eventsOf = (on: TestGateway) => on.logged().map(({ msg, event }) => String(event ?? msg))
const checkpointOf = async (on: TestGateway) =>
  parseCheckpoint(parseNote(await (await on.ask('GET', '/v1/public/log/checkpoint')).text())?.text ?? '')
const metricsOf = async (on: TestGateway) => (await on.ask('GET', '/metrics', { as: 'viewer' })).text()
const keysOf = async (on: TestGateway) => (await json(await on.ask('GET', '/v1/public/log/keys'))).keys as string[]

test('§31: a log key without the one before stops the log with the name of the key that is missing, and nothing is lost', async () => {
  await using first = await scoped(startTestGateway(withKey(older)))
  const beside = (...seeds: readonly string[]) => startTestGateway(withKey(...seeds), undefined, { beside: first })
  const [before = ''] = await issued(1, first)
  await first.gateway.sequencer.catchUp()
  const [oldKey = ''] = await keysOf(first)
  const size = (await checkpointOf(first))?.size

  const alone = await beside(newer)
  const [waits = ''] = await issued(1, first, macsOf(newer))
  await alone.gateway.sequencer.catchUp()
  expect((await checkpointOf(first))?.size).toBe(size ?? -1)
  const line = alone.logged().find(({ msg, event }) => (event ?? msg) === 'log_key_unknown')
  expect(oldKey.startsWith(`${String(line?.signed_by)}+`)).toBe(true)
  // Nor is a proof refused as a forgery.
  expect(await isLogged(before, alone)).toBe(false)
  for (const event of ['log_forked', 'receipt_forged']) expect(eventsOf(alone)).not.toContain(event)
  expect(await metricsOf(alone)).toContain('\nsvc_log_stopped 1\n')
  expect(await metricsOf(first)).toContain('\nsvc_log_stopped 0\n')
  await alone.stop()

  const both = await beside(newer, older)
  await both.gateway.sequencer.catchUp()
  for (const hash of [before, waits]) expect(await isLogged(hash, both)).toBe(true)
  expect((await both.gateway.checkBooks()).faults).toEqual([])
  for (const event of ['log_key_unknown', 'receipt_forged']) expect(eventsOf(both)).not.toContain(event)
  await both.stop()
})

test('§31: a data folder that remembers the log does not hide that its key is missing', async () => {
  await using first = await scoped(startTestGateway(withKey(older)))
  await first.gateway.sequencer.catchUp()
  const kept = await (await first.ask('GET', '/v1/public/log/checkpoint')).text()
  const memory = { read: () => kept, write: () => {} }
  const keys = [signingKey(Buffer.from(newer, 'hex'))] as const
  const alone = sequencerOf(first, { keys, macs: macsOf(newer), memory })
  await alone.start()
  await issued(1, first, macsOf(newer))
  await alone.catchUp()
  await alone.stop()
  expect([alone.told('log_key_unknown'), alone.told('log_forked')]).toEqual([1, 0])
  expect(await (await first.ask('GET', '/v1/public/log/checkpoint')).text()).toBe(kept)
})

test('§31: where the key before is lost, the operator names a fork, and the log goes on by the new key', async () => {
  await using first = await scoped(startTestGateway(withKey(older)))
  await first.gateway.sequencer.catchUp()
  const at = await checkpointOf(first)
  const alone = await startTestGateway(withKey(newer), undefined, { beside: first })
  const [waits = ''] = await issued(1, first, macsOf(newer))
  await alone.gateway.sequencer.catchUp()
  const body = { confirm: 'NAME THE FORK', reason: 'the key is lost' }
  const named = await json(await alone.ask('POST', '/v1/admin/log/fork', { as: 'admin', json: body }))
  expect(named).toMatchObject({ origin: `${at?.origin}/2`, lost_size: at?.size })
  await alone.gateway.sequencer.catchUp()
  expect(await isLogged(waits, alone)).toBe(true)
  // By the new key alone: a reader who knows the old one cannot follow.
  const note = parseNote(await (await alone.ask('GET', '/v1/public/log/checkpoint')).text())
  const known = (seed: string) =>
    signersOf(`${at?.origin}/2`, [signingKey(Buffer.from(seed, 'hex'))]).map(({ key }) => key)
  if (note === null) throw new Error('no checkpoint')
  expect([older, newer].map((seed) => checkNote(note, known(seed), verifyEd25519)?.length ?? 0)).toEqual([0, 1])
  expect(await metricsOf(alone)).toContain('\nsvc_log_stopped 0\n')
  expect((await alone.gateway.checkBooks()).faults).toEqual([])
  await alone.stop()
})

test('§36: through a rotation of the log key every receipt is in the log, whichever gateway marked it, without an alarm', async () => {
  await using first = await scoped(startTestGateway(withKey(older)))
  const beside = (...seeds: readonly string[]) => startTestGateway(withKey(...seeds), undefined, { beside: first })
  const hashes = [...(await issued(2, first, macsOf(older)))]
  await first.gateway.sequencer.catchUp()
  // As docs/operations/secure.md says: behind the old one, in front of it, alone.
  for (const seeds of [[older, newer], [newer, older], [newer]]) {
    const next = await beside(...seeds)
    hashes.push(...(await issued(2, first, macsOf(...seeds))))
    await next.gateway.sequencer.catchUp()
    for (const hash of hashes) expect(await isLogged(hash, next)).toBe(true)
    expect((await next.gateway.checkBooks()).faults).toEqual([])
    for (const event of ['receipt_forged', 'receipts_of_another_key', 'log_key_unknown']) {
      expect(eventsOf(next)).not.toContain(event)
    }
    await next.stop()
  }
  // The key between two gateways of which one knows the old one alone: the other one takes what it marked.
  const [late = ''] = await issued(1, first, macsOf(newer))
  const [early = ''] = await issued(1, first, macsOf(older))
  const both = await beside(newer, older)
  await both.gateway.sequencer.catchUp()
  for (const hash of [late, early]) expect(await isLogged(hash, both)).toBe(true)
  await both.stop()
})
