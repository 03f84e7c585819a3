import { describe, expect, test } from 'bun:test'
import { checkpointText, logProofText, proofLines } from '../../../src/protocol/log/checkpoint.ts'
import { cutoffHash } from '../../../src/protocol/log/entry-facts.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import {
  consistencyProof,
  inclusionProof,
  nodeHash,
  type ReadSubtrees,
  rootAt,
  type TreeHash,
} from '../../../src/protocol/log/merkle-log.ts'
import { noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { type Receipt, receiptText, textHash } from '../../../src/protocol/receipts/receipt.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyReceipt } from '../../../src/protocol/verify/receipt.ts'
import type { Trust } from '../../../src/protocol/verify/trust.ts'
import { receiptFacts } from '../../support/money/receipt-facts.ts'

const keyOf = (byte: number) => signingKey(new Uint8Array(32).fill(byte))
const [log, stranger, witness] = [keyOf(6), keyOf(9), keyOf(10)]
const [origin, witnessName] = ['svc-log/a-test', 'a-witness']
const trust: Trust = {
  logKeys: [logSigner(origin, log).key],
  witnessKeys: [logSigner(witnessName, witness).key],
  nodeKeys: [],
  auditKeys: [],
  witnessesMin: 0,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
}

const facts: Receipt = receiptFacts({
  issuer: 'node',
  requestId: 'req_1',
  kind: 'private_job',
  nodeId: 'node_1',
  runtimeId: 'rt_1',
  startedAt: '2025-11-20T15:59:59.000Z',
  completedAt: '2025-11-20T16:00:00.000Z',
})
const hash = textHash(receiptText(facts))
const other = (at: number) => logLeaf({ kind: 'receipt', hash: textHash(`${at}`) })

/** Hashes of complete subtrees of these leaves. */
function reader(leaves: readonly TreeHash[]): ReadSubtrees {
  const hashOf = (level: number, index: number): TreeHash =>
    level === 0 ? (leaves[index] as TreeHash) : nodeHash(hashOf(level - 1, 2 * index), hashOf(level - 1, 2 * index + 1))
  return async (wanted) => wanted.map(({ level, index }) => hashOf(level, index))
}

const hex = (root: TreeHash) => Buffer.from(root).toString('hex')
const lines = (proof: readonly TreeHash[]) =>
  proofLines(proof)
    .split('\n')
    .filter((line) => line !== '')

async function noteOf(leaves: readonly TreeHash[], signers = [logSigner(origin, log)]) {
  const text = checkpointText({ origin, size: leaves.length, root: await rootAt(leaves.length, reader(leaves)) })
  return noteText({ text, signatures: signers.map((signer) => signer.sign(text)) })
}

/** Receipts of before, this one at the place 2, the cutoff behind all of them, and what came later. */
const before = [other(0), other(1), logLeaf({ kind: 'receipt', hash }), other(3), other(4)]
const cutoffFacts = {
  size: before.length,
  root: hex(await rootAt(before.length, reader(before))),
  unsigned: 5,
  unsignedHash: `0x${'ab'.repeat(32)}`,
}
const leaves = [...before, logLeaf({ kind: 'cutoff', hash: cutoffHash(cutoffFacts) }), other(6), other(7), other(8)]

interface Place {
  readonly index?: number
  readonly proof?: readonly TreeHash[]
  readonly note?: string
}

const place = 2
const proof = await inclusionProof(place, leaves.length, reader(leaves))
const note = await noteOf(leaves)
const cutoff = {
  ...{ size: cutoffFacts.size, root: cutoffFacts.root },
  ...{ unsigned: cutoffFacts.unsigned, unsigned_hash: cutoffFacts.unsignedHash },
  proof: lines(await inclusionProof(before.length, leaves.length, reader(leaves))),
}
const fileOf = (where: Place = {}, bound: unknown = cutoff, more: object = {}) => ({
  object: 'svc.receipt',
  receipt: JSON.parse(receiptText(facts)) as Record<string, unknown>,
  receipt_hash: hash,
  signature_ed25519: null,
  log: { log_proof: logProofText({ index: place, proof, note, ...where }), cutoff: bound },
  ...more,
})
const checksOf = (given: Readonly<Record<string, unknown>>, known = trust) =>
  Object.fromEntries(verifyReceipt(given, known).checks.map(({ name, ok }) => [name, ok]))
const failed = (given: Readonly<Record<string, unknown>>, known = trust) =>
  Object.entries(checksOf(given, known)).flatMap(([name, ok]) => (ok === false ? [name] : []))

describe('§31: a receipt without its node’s signature counts only before the cutoff of its log', () => {
  test('with the proofs of both places it is valid, and nothing says that the node signed it', () => {
    expect(verifyReceipt(fileOf(), trust)).toMatchObject({ valid: true, checkpoint: { size: leaves.length } })
    expect(checksOf(fileOf())).toMatchObject({ hash: true, signature: null, log: true, checkpoint: true })
    const detail = verifyReceipt(fileOf(), trust).checks.find(({ name }) => name === 'signature')?.detail
    expect(detail).toContain('the 5 of them')
  })

  test.each<readonly [string, unknown]>([
    ['no cutoff', null],
    ['a cutoff of another size', { ...cutoff, size: 6 }],
    ['a cutoff at its own place', { ...cutoff, size: place }],
    ['a cutoff before it', { ...cutoff, size: 1 }],
    ['a cutoff of another root', { ...cutoff, root: hex(other(1)) }],
    ['a cutoff of more receipts', { ...cutoff, unsigned: 6 }],
    ['a cutoff of no receipts', { ...cutoff, unsigned: 0 }],
    ['a cutoff of half a receipt', { ...cutoff, unsigned: 5.5 }],
    ['a cutoff of other receipts', { ...cutoff, unsigned_hash: `0x${'cd'.repeat(32)}` }],
    ['a cutoff without a proof', { ...cutoff, proof: [] }],
    ['a cutoff with a shorter proof', { ...cutoff, proof: cutoff.proof.slice(1) }],
    ['a cutoff with another proof', { ...cutoff, proof: cutoff.proof.toReversed() }],
    ['a cutoff with a proof that is none', { ...cutoff, proof: ['none'] }],
  ])('%s bounds nothing', (_what, bound) => {
    expect(failed(fileOf({}, bound))).toEqual(['signature'])
  })

  test('a cutoff of nothing at all, that stands in the log, bounds nothing', async () => {
    const empty = { ...cutoffFacts, unsigned: 0 }
    const made = leaves.with(before.length, logLeaf({ kind: 'cutoff', hash: cutoffHash(empty) }))
    const where = { proof: await inclusionProof(place, made.length, reader(made)), note: await noteOf(made) }
    const bound = { ...cutoff, unsigned: 0 }
    const path = lines(await inclusionProof(before.length, made.length, reader(made)))
    expect(failed(fileOf(where, { ...bound, proof: path }))).toEqual(['signature'])
  })

  test('a receipt that came into the log behind the cutoff is none of those it bounds', async () => {
    const made = leaves.with(place, other(2)).with(7, logLeaf({ kind: 'receipt', hash }))
    const root = hex(await rootAt(before.length, reader(made)))
    const bound = logLeaf({ kind: 'cutoff', hash: cutoffHash({ ...cutoffFacts, root }) })
    const grown = made.with(before.length, bound)
    const path = lines(await inclusionProof(before.length, grown.length, reader(grown)))
    const where = { index: 7, proof: await inclusionProof(7, grown.length, reader(grown)), note: await noteOf(grown) }
    expect(failed(fileOf(where, { ...cutoff, root, proof: path }))).toEqual(['signature'])
  })

  test('a cutoff may bound a single receipt', async () => {
    const made = leaves.with(
      before.length,
      logLeaf({ kind: 'cutoff', hash: cutoffHash({ ...cutoffFacts, unsigned: 1 }) }),
    )
    const where = { proof: await inclusionProof(place, made.length, reader(made)), note: await noteOf(made) }
    const path = lines(await inclusionProof(before.length, made.length, reader(made)))
    expect(failed(fileOf(where, { ...cutoff, unsigned: 1, proof: path }))).toEqual([])
  })

  test('a receipt that the gateway issued needs its signature, whatever the cutoff is', async () => {
    const text = receiptText({ ...facts, issuer: 'gateway' })
    const made = leaves.with(place, logLeaf({ kind: 'receipt', hash: textHash(text) }))
    const where = { proof: await inclusionProof(place, made.length, reader(made)), note: await noteOf(made) }
    const path = lines(await inclusionProof(before.length, made.length, reader(made)))
    const file = fileOf(where, { ...cutoff, proof: path }, { receipt: JSON.parse(text), receipt_hash: textHash(text) })
    expect(failed(file)).toEqual(['signature'])
  })
})

describe('§31: a place in the log is worth what its checkpoint is worth', () => {
  test.each<readonly [string, Place]>([
    ['another place', { index: 3 }],
    ['a place beyond the end', { index: leaves.length }],
    ['a shorter proof', { proof: proof.slice(1) }],
    ['a longer proof', { proof: [...proof, other(1)] }],
    ['another proof', { proof: proof.toReversed() }],
  ])('%s does not lead to the checkpoint, so the cutoff says nothing either', (_what, where) => {
    expect(failed(fileOf(where))).toEqual(['signature', 'log'])
  })

  test('without a proof a receipt is refused where the log is asked for, and unproven elsewhere', () => {
    const file = { ...fileOf(), log: { cutoff } }
    expect(failed(file)).toEqual(['signature', 'log'])
    expect(checksOf(file, { ...trust, logNeeded: false })).toMatchObject({ signature: false, log: null })
  })

  test('a checkpoint that the log’s key has not signed proves nothing', async () => {
    const forged = await noteOf(leaves, [logSigner(origin, stranger)])
    expect(failed(fileOf({ note: forged }))).toEqual(['checkpoint'])
    expect(failed(fileOf({ note: await noteOf(leaves, []) }))).not.toEqual([])
    expect(failed(fileOf(), { ...trust, logKeys: [logSigner('another-log', log).key] })).toEqual(['checkpoint'])
    expect(verifyReceipt(fileOf({ note: forged }), trust)).toMatchObject({ valid: false, checkpoint: null })
  })

  test('who signed it is told by name: the known ones, how many are not known, and nobody', async () => {
    const detailOf = async (signers: readonly ReturnType<typeof logSigner>[]) =>
      verifyReceipt(fileOf({ note: await noteOf(leaves, [...signers]) }), trust).checks.find(
        ({ name }) => name === 'witnesses',
      )?.detail
    const [own, known, unknown] = [
      logSigner(origin, log),
      logSigner(witnessName, witness),
      logSigner('another', stranger),
    ]
    expect(await detailOf([own])).toBe('none that is known here')
    expect(await detailOf([own, unknown])).toBe(
      'none that is known here (1 signatures of keys that are not known here)',
    )
    expect(await detailOf([own, known])).toBe(`${witnessName} at some time`)
    const text = checkpointText({ origin, size: leaves.length, root: await rootAt(leaves.length, reader(leaves)) })
    const seconds = Date.parse('2026-11-20T16:00:00Z') / 1_000
    const seen = noteText({ text, signatures: [own.sign(text), known.cosign(text, seconds)] })
    const cosigner = { ...trust, witnessKeys: [known.cosigningKey] }
    expect(verifyReceipt(fileOf({ note: seen }), cosigner).checks).toContainEqual({
      name: 'witnesses',
      ok: true,
      detail: `${witnessName} at 2026-11-20T16:00:00.000Z`,
    })
    expect(await detailOf([own, known])).not.toContain('not known here')
    expect(await detailOf([own, known, unknown])).toContain('(1 signatures of keys that are not known here)')
  })

  test('what is no checkpoint, or of a log whose key is not known, is told as such', async () => {
    const detailOf = (file: ReturnType<typeof fileOf>, known = trust) =>
      verifyReceipt(file, known).checks.find(({ name }) => name === 'checkpoint')?.detail
    expect(failed(fileOf({ note: 'no note' }))).toEqual(['signature', 'log', 'checkpoint'])
    expect(detailOf(fileOf({ note: 'no note' }))).toBe('there is no checkpoint of a log')
    expect(detailOf(fileOf())).toBe(`${origin}, ${leaves.length} entries`)
    expect(detailOf(fileOf({ note: await noteOf(leaves, [logSigner(origin, stranger)]) }))).toBe(
      'not signed by the known key',
    )
    expect(detailOf(fileOf(), { ...trust, logKeys: [] })).toBe('its key is not known here: give it with --log-key')
  })

  test('as many known witnesses as were asked for must have signed it', async () => {
    const both = await noteOf(leaves, [logSigner(origin, log), logSigner(witnessName, witness)])
    const needy = { ...trust, witnessesMin: 1 }
    expect(failed(fileOf({ note: both }), needy)).toEqual([])
    expect(failed(fileOf(), needy)).toEqual(['witnesses'])
    expect(failed(fileOf({ note: both }), { ...trust, witnessesMin: 2 })).toEqual(['witnesses'])
    expect(failed(fileOf({ note: both }), { ...needy, witnessKeys: [] })).toEqual(['witnesses'])
    expect([checksOf(fileOf()).witnesses, checksOf(fileOf({ note: both })).witnesses]).toEqual([null, true])
  })
})

describe('§31: a log leads on from what was seen before', async () => {
  const seen = { size: 4, root: await rootAt(4, reader(leaves)) }
  const remembers = (tree: typeof seen): Trust => ({
    ...trust,
    remembered: (name) => (name === origin ? [{ origin, ...tree }] : []),
  })
  const path = lines(await consistencyProof(seen.size, leaves.length, reader(leaves)))
  const given = { from: seen.size, to: leaves.length, proof: path }
  const withProof = (one: object) => fileOf({}, cutoff, { consistency: [one] })
  const detailOf = (file: ReturnType<typeof fileOf>, known: Trust) =>
    verifyReceipt(file, known).checks.find(({ name }) => name === 'consistency')?.detail

  test('by the proof between the two, whichever is older', async () => {
    expect(checksOf(fileOf()).consistency).toBeNull()
    expect(checksOf(withProof(given), remembers(seen)).consistency).toBe(true)
    expect(detailOf(withProof(given), remembers(seen))).toBe('leads on from the 4 entries that were seen here')
    const newer = [...leaves, other(9), other(10)]
    const later = { size: newer.length, root: await rootAt(newer.length, reader(newer)) }
    const between = lines(await consistencyProof(leaves.length, newer.length, reader(newer)))
    const from = { from: leaves.length, to: newer.length, proof: between }
    expect(checksOf(withProof(from), remembers(later)).consistency).toBe(true)
    const same = { size: leaves.length, root: await rootAt(leaves.length, reader(leaves)) }
    expect(checksOf(fileOf(), remembers(same)).consistency).toBe(true)
  })

  test.each<readonly [string, object]>([
    ['no proof', { from: 0, to: 0, proof: [] }],
    ['a proof from another size', { ...given, from: seen.size - 1 }],
    ['a proof to another size', { ...given, to: leaves.length - 1 }],
    ['a shorter proof', { ...given, proof: path.slice(1) }],
    ['a proof that is none', { ...given, proof: ['none'] }],
    ['an empty proof', { ...given, proof: [] }],
  ])('not by %s', (_what, one) => {
    expect(failed(withProof(one), remembers(seen))).toEqual(['consistency'])
  })

  test('another log of the same size, or one with another beginning, is a split view', async () => {
    const others = leaves.with(0, other(20))
    const whole = { size: others.length, root: await rootAt(others.length, reader(others)) }
    const start = { size: 4, root: await rootAt(4, reader(others)) }
    for (const tree of [whole, start]) expect(detailOf(withProof(given), remembers(tree))).toStartWith('SPLIT VIEW')
    for (const tree of [whole, start]) expect(failed(withProof(given), remembers(tree))).toEqual(['consistency'])
    const shown: Trust = { ...trust, shown: new Map() }
    expect([failed(fileOf(), shown), failed(fileOf(), shown)]).toEqual([[], []])
    const file = fileOf({
      proof: await inclusionProof(place, others.length, reader(others)),
      note: await noteOf(others),
    })
    expect(failed(file, shown)).toContain('consistency')
    // What the log has not signed is no log of it.
    const unsigned = fileOf({ note: await noteOf(others, [logSigner(origin, stranger)]) })
    expect(failed(unsigned, { ...trust, shown: new Map(shown.shown) })).not.toContain('consistency')
  })
})
