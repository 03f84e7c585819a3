import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { createWitness, type Witness, witnessName } from '../../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../../src/node/witness/witness-memory.ts'
import { checkpointText, parseCheckpoint } from '../../../src/protocol/log/checkpoint.ts'
import type { ForkProof } from '../../../src/protocol/log/fork-proof.ts'
import { consistencyProof, foldSubtrees, leafHash, type Subtree } from '../../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteKinds, noteText, parseNote } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { witnessRequestText } from '../../../src/protocol/log/witnessing.ts'
import { fromBase64url } from '../../../src/protocol/signing/base64url.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'
import { dialledAgent, newAccount } from '../../support/gateways/accounts.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { receiptOf } from '../../support/money/forging.ts'
import { insertReceipts } from '../../support/money/insert-receipts.ts'
import { fixture } from '../../support/run/fixture.ts'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-witness-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const logKey = signingKey(new Uint8Array(32).fill(1))
const origin = 'svc-log/test'
const log = logSigner(origin, logKey)
const keys = [noteKeyText(log.key)]

/** A log whose entries are these texts. */
function logOf(entries: readonly string[]) {
  const leaves = entries.map((entry) => leafHash(Buffer.from(entry)))
  const hash = ({ level, index }: Subtree) => {
    let row = leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)
    while (row.length > 1)
      row = Array.from({ length: row.length / 2 }, (_, at) => foldSubtrees(row.slice(2 * at, 2 * at + 2)))
    return row[0] as Uint8Array
  }
  const read = async (wanted: readonly Subtree[]) => wanted.map(hash)
  const request = async (oldSize: number, signer = log) => {
    const { rootAt } = await import('../../../src/protocol/log/merkle-log.ts')
    const text = checkpointText({ origin, size: entries.length, root: await rootAt(entries.length, read) })
    const proof = await consistencyProof(oldSize, entries.length, read)
    return witnessRequestText({ oldSize, proof, note: noteText({ text, signatures: [signer.sign(text)] }) })
  }
  return { request }
}

function witnessIn(name: string, seed = 2, given: readonly string[] = keys) {
  const memory = openWitnessMemory(openPrivateFolder(join(scratch, name)))
  memory.give(given)
  const identity = signingKey(new Uint8Array(32).fill(seed))
  return createWitness({ memory, identity, log: createLog('silent', () => {}) })
}

const told = (keys: readonly string[] = [], fork: ForkProof | null = null) => ({ keys, fork })

test('§31: a witness signs what leads on from what it signed before, also after a restart, and nothing else', async () => {
  const witness = witnessIn('a')
  const three = logOf(['a', 'b', 'c'])
  expect(witness.cosign(await three.request(0), told(keys))).toMatchObject({ kind: 'cosigned' })
  const five = logOf(['a', 'b', 'c', 'd', 'e'])
  expect(witness.cosign(await five.request(2), told(keys))).toMatchObject({ kind: 'behind', size: 3 })
  expect(witnessIn('a').cosign(await five.request(3), told())).toMatchObject({ kind: 'cosigned' })
  // Another witness object on the same folder: the first one's memory is older.
  const again = witnessIn('a')
  expect(again.cosign(await three.request(0), told(keys))).toMatchObject({ kind: 'behind', size: 5 })
  const other = logOf(['a', 'b', 'c', 'd', 'x', 'y'])
  const refused = again.cosign(await other.request(5), told(keys))
  expect(refused).toMatchObject({ kind: 'inconsistent', seen: expect.stringContaining(`${origin}\n5\n`) })
  // Equal sizes, another root.
  expect(again.cosign(await logOf(['a', 'b', 'c', 'd', 'x']).request(5), told(keys))).toMatchObject({
    kind: 'inconsistent',
  })
  const stranger = logSigner(origin, signingKey(new Uint8Array(32).fill(3)))
  const six = logOf(['a', 'b', 'c', 'd', 'e', 'f'])
  expect(again.cosign(await six.request(5, stranger), told([noteKeyText(stranger.key)]))).toEqual({ kind: 'unsigned' })
  for (const wrong of ['', 'old 1', 'old 05\n\nx', `old 5\n\n${'x'.repeat(20_000)}`]) {
    expect(again.cosign(wrong, told(keys))).toEqual({ kind: 'malformed' })
  }
})

test('§31: a forged gateway that shows two logs is exposed when their witnesses meet one of them', async () => {
  const [one, two] = [witnessIn('one', 4), witnessIn('two', 5)]
  const [left, right] = [logOf(['a', 'b', 'c']), logOf(['a', 'b', 'z'])]
  expect(one.cosign(await left.request(0), told(keys))).toMatchObject({ kind: 'cosigned' })
  expect(two.cosign(await right.request(0), told(keys))).toMatchObject({ kind: 'cosigned' })
  // Whichever it shows to both next, one of them does not sign, and gives the proof: two checkpoints by one key.
  const shown = one.cosign(await right.request(3), told(keys))
  expect(shown).toMatchObject({ kind: 'inconsistent', seen: expect.stringContaining(`${origin}\n3\n`) })
})

const env = { ...stillLog, SVC_LOG_COSIGN_MS: '600000' }
const gateway = await fixture(startTestGateway(env))
await fixture(dialledAgent(gateway, (await newAccount(gateway)).id))

async function grow(count: number): Promise<void> {
  const rows = Array.from({ length: count }, () => receiptOf())
  await insertReceipts(gateway.database, rows)
  await gateway.gateway.sequencer.catchUp()
}

const shown = async () => (await gateway.ask('GET', '/v1/public/log/checkpoint')).text()

test('§31: agents cosign what the gateway shows, and expose it when it goes back', async () => {
  await grow(3)
  expect(await gateway.gateway.cosigning.round()).toBe(1)
  const note = parseNote(await shown())
  expect(note?.signatures.map(({ name }) => name.split('/')[0])).toEqual(['svc-log', 'svc-witness'])
  await grow(300)
  expect(await gateway.gateway.cosigning.round()).toBe(1)
  expect(await gateway.gateway.cosigning.round()).toBe(0)
  // Another gateway that has seen nothing, over the same database as it was: the agent remembers.
  const { sql } = gateway.database
  const size = parseCheckpoint(note?.text ?? '')?.size ?? 0
  await sql`delete from log_checkpoints where size > ${size}`
  await sql`update log_state set size = ${size}, root = ${Buffer.from(parseCheckpoint(note?.text ?? '')?.root ?? [])}`
  expect(gateway.gateway.sequencer.fork()).toBeNull()
  await gateway.gateway.cosigning.round()
  expect(gateway.gateway.sequencer.fork()).not.toBeNull()
})

test('§31: a witness that stands in SVC_LOG_WITNESSES is asked as well, and its cosignature is shown', async () => {
  const identity = signingKey(new Uint8Array(32).fill(9))
  const asked: string[] = []
  let elsewhere: Witness | null = null
  const server = Bun.serve({
    port: 0,
    hostname: '127.0.0.1',
    fetch: async (request) => {
      asked.push(`${request.method} ${new URL(request.url).pathname}`)
      const answer = elsewhere?.cosign(await request.text(), told()) ?? { kind: 'unknown' }
      return 'line' in answer ? new Response(answer.line) : new Response(answer.kind, { status: 409 })
    },
  })
  const publicKey = fromBase64url(identity.publicKey, 32) ?? new Uint8Array()
  const key = noteKeyText({ name: witnessName(identity), kind: noteKinds.cosignature, publicKey })
  const own = await startTestGateway({ SVC_LOG_WITNESSES: `${key} ${server.url.origin}/` })
  try {
    const { keys: given } = (await json(await own.ask('GET', '/v1/public/log/keys'))) as unknown as { keys: string[] }
    elsewhere = witnessIn('elsewhere', 9, given)
    await own.gateway.sequencer.catchUp()
    expect(await own.gateway.cosigning.round()).toBe(1)
    expect(new Set(asked)).toEqual(new Set(['POST /add-checkpoint']))
    const note = parseNote(await (await own.ask('GET', '/v1/public/log/checkpoint')).text())
    expect(note?.signatures.map(({ name }) => name)).toContain(witnessName(identity))
  } finally {
    await own.stop()
    await server.stop(true)
  }
})

test('§31: the name of a witness says nothing of its node', () => {
  const key = signingKey(new Uint8Array(32).fill(2))
  expect(witnessName(key)).toBe(`svc-witness/${key.keyId}`)
  expect(noteKinds.cosignature).toBe(4)
})
