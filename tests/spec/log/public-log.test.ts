import { describe, expect, test } from 'bun:test'
import { sql } from 'drizzle-orm'
import { sessionOf } from '../../../src/db/client.ts'
import { parseCheckpoint, parseLogProof, parseProofLines } from '../../../src/protocol/log/checkpoint.ts'
import { parseLogEntry } from '../../../src/protocol/log/log-entry.ts'
import { isConsistent, leafHash, rootByInclusion } from '../../../src/protocol/log/merkle-log.ts'
import { checkNote, parseNote, parseNoteKey } from '../../../src/protocol/log/note.ts'
import { textHash } from '../../../src/protocol/receipts/receipt.ts'
import { toBase64url } from '../../../src/protocol/signing/base64url.ts'
import { verifyEd25519, verifyKey } from '../../../src/protocol/signing/ed25519.ts'
import { receiptMessage } from '../../../src/protocol/signing/signatures.ts'
import { json, startTestGateway, stillLog } from '../../support/gateways/http-gateway.ts'
import { receiptOf } from '../../support/money/forging.ts'
import { insertGroup, insertReceipts } from '../../support/money/insert-receipts.ts'
import { payFor } from '../../support/money/money.ts'
import { markOf } from '../../support/money/receipt-macs.ts'
import { fixture } from '../../support/run/fixture.ts'
import { waitFor } from '../../support/run/wait-until.ts'

const gateway = await fixture(startTestGateway(stillLog))

const path = '/v1/public/log'
const text = async (route: string) => (await gateway.ask('GET', path + route)).text()
const proof = async (query: string) => json(await gateway.ask('GET', `${path}/proof?${query}`))

/** A free receipt as the writer puts it there; resolves with its hash. */
async function received(issuer: 'node' | 'gateway' = 'gateway', write = insertGroup): Promise<string> {
  const receipt = receiptOf('cus_a', { issuer })
  await write(gateway.database, [receipt])
  return receipt.hash
}

async function checkpoint() {
  const note = parseNote(await text('/checkpoint'))
  const { keys } = (await json(await gateway.ask('GET', `${path}/keys`))) as unknown as { keys: string[] }
  const known = keys.map(parseNoteKey).filter((key) => key !== null)
  if (note === null) throw new Error('no checkpoint')
  expect(checkNote(note, known, verifyEd25519)).toHaveLength(keys.length)
  const read = parseCheckpoint(note.text)
  if (read === null) throw new Error('no checkpoint')
  return { ...read, key: known[0] }
}

describe('§31: the public log', () => {
  test('a receipt stands below a checkpoint that the log key signed, and is signed itself', async () => {
    const hash = await received()
    await gateway.gateway.sequencer.catchUp()
    const { size, root, key } = await checkpoint()
    const body = await proof(`receipt_hash=${hash}`)
    expect(parseLogEntry(String(body.entry))).toEqual({ kind: 'receipt', hash })
    const hashes = parseProofLines(body.proof as string[]) ?? []
    expect(rootByInclusion(leafHash(Buffer.from(String(body.entry))), Number(body.index), size, hashes)).toEqual(root)
    expect(parseLogProof(String(body.log_proof))).toMatchObject({ index: body.index, proof: hashes })
    const signed = verifyKey(toBase64url(key?.publicKey ?? new Uint8Array()))
    expect(signed?.verify(receiptMessage(hash), String(body.signature_ed25519))).toBe(true)
  })

  test('what a version before wrote is read beside it: a row and a signature for each receipt', async () => {
    const { sequencer } = gateway.gateway
    await sequencer.catchUp()
    const [old, foreign] = [await received('gateway', insertReceipts), await received('node', insertReceipts)]
    await sequencer.catchUp()
    const { index, size } = await proof(`receipt_hash=${old}`)
    const bundle = async () => (await gateway.ask('GET', `${path}/tile/entries/000.p/${size}`)).text()
    const before = await bundle()
    const signature = 'A'.repeat(86)
    const [run] = await gateway.database.sql<{ from_seq: string; entries: number }[]>`
      delete from log_receipts where first_index = ${Number(index)} returning from_seq, entries`
    expect(run?.entries).toBe(2)
    await gateway.database.sql`insert into log_entries (entry_index, kind, hash, signature_ed25519)
      values (${Number(index)}, 'receipt', ${old}, ${signature}), (${Number(index) + 1}, 'receipt', ${foreign}, null)`
    expect(await proof(`receipt_hash=${old}`)).toMatchObject({ index, signature_ed25519: signature })
    // What a node issued has no signature of the gateway.
    expect(await proof(`receipt_hash=${foreign}`)).toMatchObject({ index: Number(index) + 1, signature_ed25519: null })
    expect(await bundle()).toBe(before)
    expect(before).toContain(old)
  })

  test('the log only grows: every checkpoint leads to every later one, and no entry comes twice', async () => {
    const trees = [await checkpoint()]
    for (let round = 0; round < 5; round++) {
      for (let at = 0; at < 200 * (round % 2) + 7; at++) await received()
      await gateway.gateway.sequencer.catchUp()
      trees.push(await checkpoint())
    }
    for (const [at, earlier] of trees.entries()) {
      for (const later of trees.slice(at)) {
        const body = await proof(`from=${earlier.size}&to=${later.size}`)
        const hashes = parseProofLines(body.proof as string[]) ?? []
        expect(isConsistent(earlier, later, hashes)).toBe(true)
      }
    }
    const size = trees.at(-1)?.size ?? 0
    const entries = await entriesOf(size)
    expect(new Set(entries).size).toBe(size)
    await gateway.gateway.sequencer.catchUp()
    expect((await checkpoint()).size).toBe(size)
  })

  test('tiles are cacheable for ever, and the tree is computed from them alone', async () => {
    const { size, root } = await checkpoint()
    const [full, rest] = [Math.floor(size / 256), size % 256]
    const tile = await gateway.ask('GET', `${path}/tile/0/${String(full).padStart(3, '0')}.p/${rest}`)
    expect(tile.headers.get('cache-control')).toContain('immutable')
    expect(new Uint8Array(await tile.arrayBuffer())).toHaveLength(32 * rest)
    const leaves = (await entriesOf(size)).map((entry) => leafHash(Buffer.from(entry)))
    const { rootAt, foldSubtrees } = await import('../../../src/protocol/log/merkle-log.ts')
    const byHand = await rootAt(size, async (wanted) =>
      wanted.map(({ level, index }) => {
        let row = leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)
        while (row.length > 1) {
          row = Array.from({ length: row.length / 2 }, (_, at) => foldSubtrees(row.slice(2 * at, 2 * at + 2)))
        }
        return row[0] as Uint8Array
      }),
    )
    expect(byHand).toEqual(root)
    const beyond = await gateway.ask('GET', `${path}/tile/0/${String(full).padStart(3, '0')}.p/${rest + 1}`)
    expect([beyond.status, (await json(beyond)).code]).toEqual([404, 'log_entry_not_found'])
  })

  test('credits and the ledger are in it, by hashes that tell a stranger nothing', async () => {
    const made = await json(
      await gateway.ask('POST', '/v1/admin/customers', { as: 'admin', json: { display_name: 'Ada' } }),
    )
    const id = String(made.customer_id)
    await gateway.ask('POST', `/v1/admin/customers/${id}/credits`, {
      as: 'admin',
      json: { amount_wei: '1000', reason: 'paid' },
    })
    const hash = await payFor(gateway.database, { customerId: id, nodeId: 'node_a', amountWei: 100n })
    await gateway.gateway.sequencer.catchUp({ heads: true })
    const entries = await entriesOf((await checkpoint()).size)
    expect(entries).toContain(`svc-log-v1:receipt:${hash}`)
    for (const kind of ['credit', 'books', 'audit']) {
      expect(entries.some((entry) => entry.startsWith(`svc-log-v1:${kind}:0x`))).toBe(true)
    }
    expect(entries.join()).not.toContain(id)
  })

  test('a transaction that is still open keeps its own entries out, and nothing is left out when it ends', async () => {
    const open = sessionOf(gateway.database.sql)
    await open.unsafe('begin')
    await open.unsafe(`insert into receipt_rows (receipt_hash, issuer, request_id, kind, node_id, node_class, runtime_id, runtime_kind,
      model_id, prompt_tokens, completion_tokens, started_at, completed_at, customer_id, mac)
      values ('0x${'ab'.repeat(32)}', 'node', 'req_x', 'hosted_chat', 'n', 'c', 'r', 'k', 'm', 1, 1, now(), now(), 'cus_a', '${markOf(`0x${'ab'.repeat(32)}`, 'cus_a')}')`)
    const later = await received()
    const caughtUp = gateway.gateway.sequencer.catchUp()
    let done = false
    void caughtUp.then(() => {
      done = true
    })
    // More are written meanwhile, any of which takes longer than a look that does not wait.
    for (let more = 0; more < 5; more++) await received()
    expect(done).toBe(false)
    await open.unsafe('commit')
    await open.end()
    await caughtUp
    for (const hash of [later, `0x${'ab'.repeat(32)}`]) {
      expect((await gateway.ask('GET', `${path}/proof?receipt_hash=${hash}`)).status).toBe(200)
    }
  })

  test.each([
    ['receipt_hash=0x12', 'invalid_parameter'],
    ['', 'invalid_parameter'],
    ['from=1&from=2', 'invalid_parameter'],
    ['from=99999999', 'log_entry_not_found'],
    [`hash=0x${'cd'.repeat(32)}`, 'log_entry_not_found'],
  ])('a proof of %j is %s', async (query, code) => {
    expect(await proof(query)).toMatchObject({ code })
  })
})

/** All of them, from the bundles. */
async function entriesOf(size: number): Promise<string[]> {
  const entries: string[] = []
  for (let index = 0; index * 256 < size; index++) {
    const width = Math.min(256, size - index * 256)
    const name = `${String(index).padStart(3, '0')}${width < 256 ? `.p/${width}` : ''}`
    const response = await gateway.ask('GET', `${path}/tile/entries/${name}`)
    const bytes = Buffer.from(await response.arrayBuffer())
    for (let at = 0; at < bytes.length; at += 2 + bytes.readUInt16BE(at)) {
      entries.push(bytes.subarray(at + 2, at + 2 + bytes.readUInt16BE(at)).toString())
    }
  }
  return entries
}

test('§31: two gateways on one database sequence everything once', async () => {
  const one = await startTestGateway({ SVC_LOG_INTERVAL_MS: '50' })
  const two = await startTestGateway({ SVC_LOG_INTERVAL_MS: '50' }, undefined, { beside: one })
  const rows = Array.from({ length: 400 }, (_, at) => {
    const facts = `{"issuer":"gateway","request_id":"req_${at}","job_id":null,"kind":"hosted_chat","node_id":"n","node_class":"c","runtime_id":"r","runtime_kind":"k","model_id":"m","prompt_tokens":1,"completion_tokens":1,"started_at":"2026-11-20T15:59:59.000Z","completed_at":"2026-11-20T16:00:00.000Z"}`
    return { hash: textHash(facts), text: facts, customerId: 'cus_a' }
  })
  await Promise.all(
    Array.from({ length: 40 }, (_, at) => insertReceipts(one.database, rows.slice(at * 10, at * 10 + 10))),
  )
  const logged = await waitFor('all of them are in the log', async () => {
    // One that finds the other at it leaves it to that one.
    await Promise.all([one.gateway.sequencer.catchUp(), two.gateway.sequencer.catchUp()])
    const found = await one.database.db.execute<{ hash: string }>(
      sql`select hash from log_contents where kind = 'receipt' order by entry_index`,
    )
    return found.length < rows.length ? null : found
  })
  expect(logged.map(({ hash }) => hash).sort()).toEqual(rows.map(({ hash }) => hash).sort())
  await two.stop()
  await one.stop()
})
