import { describe, expect, test } from 'bun:test'
import { promiseTexts } from '../../../src/actors/promises/promise-batch.ts'
import { checkpointText, logProofText } from '../../../src/protocol/log/checkpoint.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import { leafHash, nodeHash, rootOfLeaves, type TreeHash } from '../../../src/protocol/log/merkle-log.ts'
import { noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import type { LogPromise } from '../../../src/protocol/log/promise.ts'
import { type SigningKey, signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'
import { verifyBundle } from '../../../src/protocol/verify/bundle.ts'
import type { Trust } from '../../../src/protocol/verify/trust.ts'

const keyOf = (byte: number) => signingKey(new Uint8Array(32).fill(byte))
const [log, witness, forger] = [keyOf(5), keyOf(6), keyOf(9)]
const origin = 'svc-log/a-test'
const watching = logSigner('svc-witness/w', witness)
const trust: Trust = {
  logKeys: [logSigner(origin, log).key],
  witnessKeys: [watching.cosigningKey],
  nodeKeys: [],
  auditKeys: [],
  witnessesMin: 0,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
}
const ms = Date.parse('2026-11-20T16:00:00.123Z')
const hashAt = (at: number) => `0x${at.toString(16).padStart(64, '0')}`
const [own, other, stranger] = [hashAt(1), hashAt(2), hashAt(3)]

function batched(hashes: readonly string[], key: SigningKey = log, { at = ms, name = origin } = {}) {
  const texts = promiseTexts({ log: name, ms: at }, hashes, (text) => key.sign(text))
  return texts.map((text) => JSON.parse(text) as LogPromise)
}
const alone = (hash: string, { key = log, ...stamp }: { key?: SigningKey; at?: number; name?: string } = {}) =>
  batched([hash], key, stamp)[0] as LogPromise

const leafOf = (hash: string) => logLeaf({ kind: 'receipt', hash })
const fillers = Array.from({ length: 600 }, (_, at) => leafHash(new TextEncoder().encode(`entry ${at}`)))
interface Shown {
  readonly leaves?: readonly TreeHash[]
  readonly told?: readonly TreeHash[]
  readonly seconds?: number | null
  readonly name?: string
}
/** What `receipts promise` prints of a log that lacks the receipt. */
function omission(
  receipt: object,
  { leaves = fillers, told = leaves, seconds = (ms + 60_000) / 1_000 + 1, name = origin }: Shown = {},
) {
  const text = checkpointText({ origin: name, size: leaves.length, root: rootOfLeaves(leaves) })
  const signed = logSigner(name, log).sign(text)
  const cosigned = seconds === null ? [] : [watching.cosign(text, Math.floor(seconds))]
  const tiles: string[] = []
  for (let at = 0; at < told.length; at += 256) tiles.push(Buffer.concat(told.slice(at, at + 256)).toString('base64'))
  const checkpoint = noteText({ text, signatures: [signed, ...cosigned] })
  return { object: 'svc.promise', receipt, omission: { checkpoint, leaves: tiles } as Record<string, unknown> }
}
const failed = (given: unknown, known: Trust = trust) => {
  const verdicts = verifyBundle(given, known) ?? []
  expect(verdicts.every(({ valid, checks }) => valid === checks.every(({ ok }) => ok !== false))).toBe(true)
  return verdicts.flatMap(({ checks }) => checks).flatMap(({ name, ok }) => (ok === false ? [name] : []))
}

describe('§36: a promise', () => {
  test('is verified as it stands in an answer, in a chunk, in `svc`, alone, and several of one answer', () => {
    const receipt = alone(own)
    for (const given of [{ svc: { receipt } }, { receipt }, receipt, { object: 'svc.promise', receipt }]) {
      const verdicts = verifyBundle(given, trust)
      expect(verdicts).toMatchObject([{ kind: 'promise', subject: own, valid: true }])
    }
    const receipts = batched([own, other, stranger])
    expect(verifyBundle({ svc: { receipts } }, trust)?.map(({ subject, valid }) => [subject, valid])).toEqual(
      [own, other, stranger].map((hash) => [hash, true]),
    )
  })

  test.each([
    ['of another receipt', { ...alone(own), hash: other }],
    ['of another time', { ...alone(own), promised_at: '2026-11-20T16:00:00.124Z' }],
    ['of a time in another form', { ...alone(own), promised_at: '2026-11-20T16:00:00.123+00:00' }],
    ['of another log', { ...alone(own), log: 'svc-log/b-test' }],
    ['by another key', alone(own, { key: forger })],
    ['with no signature', { ...alone(own), signature_ed25519: '' }],
    ['alone, that was signed in a batch', { ...batched([own, other])[0], batch: undefined }],
    [
      'at another place of its batch',
      { ...batched([own, other])[0], batch: { ...batched([own, other])[0]?.batch, index: 1 } },
    ],
    [
      'of a batch of another size',
      { ...batched([own, other])[0], batch: { ...batched([own, other])[0]?.batch, size: 3 } },
    ],
    ['without its path', { ...batched([own, other])[0], batch: { ...batched([own, other])[0]?.batch, proof: [] } }],
    ['with another path', { ...batched([own, other])[0], batch: batched([own, stranger])[0]?.batch }],
    ['of a batch by another key', batched([own, other], forger)[0]],
  ])('%s is none', (_what, receipt) => {
    expect(failed({ object: 'svc.promise', receipt })).toEqual(['promise'])
  })

  test('was kept where the log of that name, or of a later one, holds the receipt', () => {
    const proven = (name: string, hash = own) => {
      const text = checkpointText({ origin: name, size: 2, root: nodeHash(fillers[0] as TreeHash, leafOf(own)) })
      const note = noteText({ text, signatures: [logSigner(name, log).sign(text)] })
      const log_proof = logProofText({ index: 1, proof: [fillers[0] as TreeHash], note })
      return { object: 'svc.promise', receipt: alone(hash), log_proof }
    }
    expect(failed(proven(origin))).toEqual([])
    const later = { ...trust, logKeys: [...trust.logKeys, logSigner(`${origin}/2`, log).key] }
    expect(failed(proven(`${origin}/2`), later)).toEqual([])
    const elsewhere = { ...trust, logKeys: [...trust.logKeys, logSigner('svc-log/b-test', log).key] }
    expect(failed(proven('svc-log/b-test'), elsewhere)).toEqual(['kept'])
    expect(failed(proven(origin, other))).toEqual(['log', 'kept'])
  })
})

describe('§36: evidence of an omission', () => {
  test('is all of a log that lacks the receipt, under a checkpoint that a known witness signed a minute later', () => {
    const [inBatch] = batched([own, other])
    for (const receipt of [alone(own), inBatch as object]) {
      expect(verifyBundle(omission(receipt), trust)).toMatchObject([{ kind: 'omission', subject: own, valid: true }])
    }
  })

  test('counts for nothing where the log holds the receipt, wherever', () => {
    for (const at of [0, 300, 599]) {
      expect(failed(omission(alone(own), { leaves: fillers.with(at, leafOf(own)) }))).toEqual(['omission'])
    }
  })

  test.each([
    ['an entry is left out', { leaves: fillers.with(7, leafOf(own)), told: fillers.toSpliced(7, 1) }, ['entries']],
    ['an entry is another one', { leaves: fillers.with(7, leafOf(own)), told: fillers }, ['entries']],
    ['the last entries are left out', { told: fillers.slice(0, 512) }, ['entries']],
    ['the checkpoint is from 59 s later', { seconds: (ms + 59_000) / 1_000 }, ['time']],
    ['no witness has signed', { seconds: null }, ['time']],
    ['it is another log', { name: 'svc-log/b-test' }, ['checkpoint', 'time', 'omission']],
  ] as const)('nor where %s', (_what, shown, names) => {
    const failing = failed(omission(alone(own), shown as Shown))
    expect(names.filter((name) => failing.includes(name)).length).toBeGreaterThan(0)
    expect(failing.every((name) => (names as readonly string[]).includes(name))).toBe(true)
  })

  test('nor where only a witness that is not known has signed, or the file says when it was fetched', () => {
    const file = omission(alone(own))
    expect(failed(file, { ...trust, witnessKeys: [] })).toEqual(['time'])
    file.omission.fetched_at = '2026-11-21T16:00:00.000Z'
    expect(failed(file, { ...trust, witnessKeys: [] })).toEqual(['time'])
  })

  test('holds without a witness by a promise that the log made a minute later, of a receipt that it holds', () => {
    const leaves = fillers.with(599, leafOf(other))
    const file = (later: object) => {
      const made = omission(alone(own), { leaves, seconds: null })
      made.omission.later = later
      return failed(made)
    }
    expect(file(alone(other, { at: ms + 60_000 }))).toEqual([])
    expect(file(alone(other, { at: ms + 59_999 }))).toEqual(['time'])
    expect(file(alone(stranger, { at: ms + 60_000 }))).toEqual(['time'])
    expect(file(alone(other, { at: ms + 60_000, key: forger }))).toEqual(['time'])
    expect(file(alone(other, { at: ms + 60_000, name: 'svc-log/b-test' }))).toEqual(['time'])
  })

  test('a promise under a later name is not broken by a checkpoint from before the fork, and one under an earlier name is by one from after it', () => {
    const known = { ...trust, logKeys: [...trust.logKeys, logSigner(`${origin}/2`, log).key] }
    expect(failed(omission(alone(own, { name: `${origin}/2` })), known)).toEqual(['omission'])
    expect(failed(omission(alone(own), { name: `${origin}/2` }), known)).toEqual([])
  })
})
