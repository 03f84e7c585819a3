import { expect, test } from 'bun:test'
import { checkpointText, logProofText, parseCheckpoint, parseLogProof } from '../../../src/protocol/log/checkpoint.ts'
import { logEntryText, parseLogEntry } from '../../../src/protocol/log/log-entry.ts'
import { leafHash, type Subtree } from '../../../src/protocol/log/merkle-log.ts'
import { checkNote, noteKeyText, noteText, parseNote, parseNoteKey } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import {
  entryBundle,
  parseTilePath,
  subtreeInTile,
  tileHashes,
  tileOf,
  tilePath,
} from '../../../src/protocol/log/tiles.ts'
import { signingKey, verifyEd25519 } from '../../../src/protocol/signing/ed25519.ts'

/** The example of the format's first implementation (golang.org/x/mod/sumdb/note). */
const published = {
  key: 'PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW',
  note: `If you think cryptography is the answer to your problem,
then you don't know what your problem is.

— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=
`,
}

test('§31: a published signed note is read, checked, and written as it was', () => {
  const key = parseNoteKey(published.key)
  const note = parseNote(published.note)
  if (key === null || note === null) throw new Error('not read')
  expect(noteKeyText(key)).toBe(published.key)
  expect(checkNote(note, [key], verifyEd25519)).toEqual([{ key, seconds: null }])
  expect(noteText(note)).toBe(published.note)
  expect(checkNote({ ...note, text: note.text.replace('answer', 'problem') }, [key], verifyEd25519)).toBeNull()
})

const signer = logSigner('svc-log/test', signingKey(new Uint8Array(32).fill(7)))
const text = checkpointText({ origin: 'svc-log/test', size: 3, root: leafHash(new Uint8Array()) })

test('§31: a checkpoint is signed by its log and cosigned by witnesses, each for itself', () => {
  const witness = logSigner('svc-witness/a', signingKey(new Uint8Array(32).fill(8)))
  const note = { text, signatures: [signer.sign(text), witness.cosign(text, 1_700_000_000)] }
  const read = parseNote(noteText(note))
  if (read === null) throw new Error('not read')
  expect(read).toEqual(note)
  expect(checkNote(read, [signer.key, witness.cosigningKey], verifyEd25519)).toEqual([
    { key: signer.key, seconds: null },
    { key: witness.cosigningKey, seconds: 1_700_000_000 },
  ])
  // An unknown key says nothing; a known one that does not hold condemns the note.
  expect(checkNote(read, [], verifyEd25519)).toEqual([])
  const forged = { ...read, text: read.text.replace('\n3\n', '\n4\n') }
  expect(checkNote(forged, [signer.key], verifyEd25519)).toBeNull()
})

test('§31: what is no checkpoint, note, key, proof or entry is none', () => {
  expect(parseCheckpoint(text)).toMatchObject({ origin: 'svc-log/test', size: 3 })
  for (const wrong of [
    '',
    'a\n3\n',
    text.replace('3', '03'),
    `${text}more\n`,
    text.replace('\n3', '\n-3'),
    text.trimEnd(),
  ]) {
    expect(parseCheckpoint(wrong)).toBeNull()
  }
  for (const wrong of ['', text, `${text}\nno signature\n`, published.note.trimEnd()])
    expect(parseNote(wrong)).toBeNull()
  for (const wrong of ['', 'a+b', published.key.replace('c74f', 'c74e'), published.key.slice(0, -1)]) {
    expect(parseNoteKey(wrong)).toBeNull()
  }
  const proof = { index: 2, proof: [leafHash(new Uint8Array())], note: published.note }
  expect(parseLogProof(logProofText(proof))).toEqual(proof)
  expect(parseLogProof(logProofText({ ...proof, proof: [] }))).toEqual({ ...proof, proof: [] })
  for (const wrong of [
    '',
    logProofText(proof).replace('index 2', 'index 02'),
    logProofText(proof).replace('@v1', '@v2'),
  ]) {
    expect(parseLogProof(wrong)).toBeNull()
  }
  const entry = { kind: 'receipt', hash: `0x${'ab'.repeat(32)}` } as const
  expect(logEntryText(entry)).toBe(`svc-log-v1:receipt:0x${'ab'.repeat(32)}`)
  expect(parseLogEntry(logEntryText(entry))).toEqual(entry)
  expect(parseLogEntry(`${logEntryText(entry)} `)).toBeNull()
})

test('§31: tiles have the paths of tlog-tiles, and hold the hashes of whole subtrees', () => {
  const name = { kind: 'hashes', level: 1, index: 1_234_067, partial: null } as const
  expect(tilePath(name)).toBe('tile/1/x001/x234/067')
  expect(tilePath({ ...name, kind: 'entries', level: 0, index: 7, partial: 112 })).toBe('tile/entries/007.p/112')
  for (const path of ['tile/1/x001/x234/067', 'tile/entries/007.p/112', 'tile/0/000']) {
    const parsed = parseTilePath(path)
    expect(parsed === null ? null : tilePath(parsed)).toBe(path)
  }
  for (const wrong of [
    'tile/00/000',
    'tile/0/0',
    'tile/0/x000/000',
    'tile/0/000.p/256',
    'tile/0/000.p/0',
    'tile/9/000',
    'tile/0/../000',
  ])
    expect(parseTilePath(wrong)).toBeNull()
  expect(tileHashes({ level: 0, index: 1 }, 300)).toBe(44)
  expect(tileHashes({ level: 1, index: 0 }, 300)).toBe(1)
  expect(tileHashes({ level: 2, index: 0 }, 300)).toBe(0)
  const leaves = Array.from({ length: 256 }, (_, at) => leafHash(Uint8Array.of(at)))
  const tile = Uint8Array.from(leaves.flatMap((leaf) => [...leaf]))
  const subtree: Subtree = { level: 3, index: 33 }
  expect(tileOf(subtree)).toEqual({ level: 0, index: 1 })
  expect(subtreeInTile(tile, { level: 0, index: 256 + 5 })).toEqual(leaves[5] as Uint8Array)
  expect(() => subtreeInTile(tile.subarray(0, 64), { level: 2, index: 0 })).toThrow(RangeError)
  expect([...entryBundle([Uint8Array.of(9), new Uint8Array(258)])].slice(0, 5)).toEqual([0, 1, 9, 1, 2])
})
