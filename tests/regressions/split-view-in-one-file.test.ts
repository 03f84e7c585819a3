import { expect, test } from 'bun:test'
import { createHmac } from 'node:crypto'
import { keyIdLength, keyIdLine } from '../../src/protocol/log/audit-line.ts'
import { checkpointText, logProofText } from '../../src/protocol/log/checkpoint.ts'
import { noteText } from '../../src/protocol/log/note.ts'
import { logSigner } from '../../src/protocol/log/note-signing.ts'
import { signingKey, verifyEd25519 } from '../../src/protocol/signing/ed25519.ts'
import { verifyBundle } from '../../src/protocol/verify/bundle.ts'
import type { Trust } from '../../src/protocol/verify/trust.ts'

const origin = 'svc-log/test'
const signer = logSigner(origin, signingKey(new Uint8Array(32).fill(1)))
const witness = logSigner('w.example', signingKey(new Uint8Array(32).fill(2)))
const auditKey = 'the-key-of-the-audit'
const trust: Trust = {
  logKeys: [signer.key],
  witnessKeys: [witness.cosigningKey],
  nodeKeys: [],
  auditKeys: [auditKey],
  witnessesMin: 0,
  logNeeded: true,
  remembered: () => [],
  verify: verifyEd25519,
}

const root = (byte: number) => new Uint8Array(32).fill(byte)
const noteOf = (size: number, hash: Uint8Array, by = signer) => {
  const text = checkpointText({ origin, size, root: hash })
  return noteText({ text, signatures: [by.sign(text)] })
}
const checkpoint = (note: string) => ({ object: 'svc.checkpoint', note })
const bundle = (...notes: readonly string[]) =>
  verifyBundle({ object: 'svc.bundle', files: notes.map(checkpoint) }, trust)?.map(({ valid }) => valid)

test('§31: one file with two logs of one name and size is no proof of anything', () => {
  expect(bundle(noteOf(5, root(1)), noteOf(5, root(1)), noteOf(6, root(2)))).toEqual([true, true, true])
  expect(bundle(noteOf(5, root(1)), noteOf(6, root(2)), noteOf(5, root(3)))).toEqual([true, true, false])
  // What the log has not signed says nothing against it.
  const stranger = logSigner(origin, signingKey(new Uint8Array(32).fill(3)))
  expect(bundle(noteOf(5, root(1), stranger), noteOf(5, root(3)))).toEqual([false, true])
})

test('§31: neither are two ends of an audit below two logs of one name and size', () => {
  const key_id = createHmac('sha256', auditKey).update(keyIdLine).digest('hex').slice(0, keyIdLength)
  const chain = (ordinal: number, hash: Uint8Array) => {
    const log_proof = logProofText({ index: 0, proof: [root(9)], note: noteOf(2, hash) })
    return { writer_id: `w${ordinal}`, ordinal, key_id, logged: { seq: 0, mac: '', log_proof } }
  }
  const split = (...chains: readonly object[]) => {
    const [verdict] = verifyBundle({ object: 'svc.audit_export', chains }, trust) ?? []
    return verdict?.checks.filter(({ detail }) => detail.startsWith('SPLIT VIEW')).length
  }
  expect(split(chain(1, root(1)), chain(2, root(1)))).toBe(0)
  expect(split(chain(1, root(1)), chain(2, root(2)))).toBe(1)
})

test('§31: a known witness that signs a time that no date has does not hold, and leaves a verdict', () => {
  const seconds = 2 ** 50
  const text = checkpointText({ origin, size: 5, root: root(1) })
  const note = noteText({ text, signatures: [signer.sign(text), witness.cosign(text, seconds)] })
  const [verdict] = verifyBundle(checkpoint(note), trust) ?? []
  expect(verdict?.checks.map(({ name, ok }) => [name, ok])).toEqual([
    ['checkpoint', true],
    ['witnesses', false],
    ['consistency', null],
  ])
})
