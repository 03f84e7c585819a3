import { afterAll, expect, test } from 'bun:test'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { openPrivateFolder } from '../../../src/host/private-files.ts'
import { createLog } from '../../../src/log.ts'
import { createWitness } from '../../../src/node/witness/witness.ts'
import { openWitnessMemory } from '../../../src/node/witness/witness-memory.ts'
import { checkpointText } from '../../../src/protocol/log/checkpoint.ts'
import { forkHash } from '../../../src/protocol/log/entry-facts.ts'
import type { ForkProof } from '../../../src/protocol/log/fork-proof.ts'
import { logLeaf } from '../../../src/protocol/log/log-entry.ts'
import {
  consistencyProof,
  foldSubtrees,
  inclusionProof,
  rootAt,
  type Subtree,
  type TreeHash,
} from '../../../src/protocol/log/merkle-log.ts'
import { noteKeyText, noteText } from '../../../src/protocol/log/note.ts'
import { logSigner } from '../../../src/protocol/log/note-signing.ts'
import { witnessRequestText } from '../../../src/protocol/log/witnessing.ts'
import { signingKey } from '../../../src/protocol/signing/ed25519.ts'

const scratch = mkdtempSync(join(tmpdir(), 'penstock-witness-memory-'))
afterAll(() => rmSync(scratch, { recursive: true }))

const logKey = signingKey(new Uint8Array(32).fill(1))
const nextKey = signingKey(new Uint8Array(32).fill(7))
const origin = 'svc-log/test'
const keyText = (name: string, key = logKey) => noteKeyText(logSigner(name, key).key)
const leafOf = (name: string): TreeHash =>
  logLeaf({ kind: 'receipt', hash: `0x${Buffer.from(name).toString('hex').padStart(64, '0')}` })

/** A tree of these leaves, and what a log under a name asks of it. */
function tree(leaves: readonly TreeHash[], name = origin, signers = [logKey]) {
  const hash = ({ level, index }: Subtree) => {
    let row = leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)
    while (row.length > 1)
      row = Array.from({ length: row.length / 2 }, (_, at) => foldSubtrees(row.slice(2 * at, 2 * at + 2)))
    return row[0] as TreeHash
  }
  const read = async (wanted: readonly Subtree[]) => wanted.map(hash)
  const size = leaves.length
  const note = async () => {
    const text = checkpointText({ origin: name, size, root: await rootAt(size, read) })
    return noteText({ text, signatures: signers.map((key) => logSigner(name, key).sign(text)) })
  }
  return {
    note,
    root: (at: number) => rootAt(at, read),
    inclusion: (index: number) => inclusionProof(index, size, read),
    request: async (oldSize: number, proven = true) => {
      const proof = proven && oldSize <= size ? await consistencyProof(oldSize, size, read) : []
      return witnessRequestText({ oldSize, proof, note: await note() })
    },
  }
}
const named = (...names: readonly string[]) => names.map(leafOf)

function witnessIn(folder: string, given: readonly string[] = [keyText(origin)]) {
  const memory = openWitnessMemory(openPrivateFolder(join(scratch, folder)))
  memory.give(given)
  const log = createLog('silent', () => {})
  return createWitness({ memory, identity: signingKey(new Uint8Array(32).fill(2)), log })
}
const told = (fork: ForkProof | null = null, keys: readonly string[] = []) => ({ keys, fork })

/** The log goes on as `name` after these leaves, and says that `lost` was lost. */
async function forked(before: readonly TreeHash[], name: string, lost: string, more: readonly TreeHash[] = []) {
  const size = before.length
  const root = (await tree(before).root(size)).toHex()
  const leaf = logLeaf({ kind: 'fork', hash: forkHash({ origin: name, size, root, lostNote: lost }) })
  const after = tree([...before, leaf, ...more], name)
  const fork: ForkProof = { origin: name, size, root, lost, proof: await after.inclusion(size) }
  return { after, fork, leaves: [...before, leaf, ...more] }
}

test('§36: a witness signs no log that it was not given, whoever names its key', async () => {
  const witness = witnessIn('given')
  const other = tree(named('a'), 'svc-log/other')
  expect(witness.cosign(await other.request(0), told(null, [keyText('svc-log/other')]))).toEqual({ kind: 'unknown' })
  const nothing = witnessIn('nothing', [])
  expect(nothing.cosign(await tree(named('a')).request(0), told(null, [keyText(origin)]))).toEqual({ kind: 'unknown' })
})

test('§36: sixteen other logs do not make a witness forget: it signs no second history', async () => {
  const witness = witnessIn('fillers')
  expect(witness.cosign(await tree(named('a', 'b')).request(0), told())).toMatchObject({ kind: 'cosigned' })
  for (let at = 0; at < 17; at++) {
    const name = `svc-log/filler${at}`
    expect(witness.cosign(await tree(named('x'), name).request(0), told(null, [keyText(name)])).kind).toBe('unknown')
  }
  const second = await tree(named('a', 'z')).request(0)
  expect(witness.cosign(second, told())).toMatchObject({ kind: 'behind', size: 2 })
  expect(witness.cosign(await tree(named('a', 'z')).request(2), told())).toMatchObject({ kind: 'inconsistent' })
})

test('§36: the owner names at most 16 logs, and a log that is known stays as it is', async () => {
  const folder = openPrivateFolder(join(scratch, 'sixteen'))
  const memory = openWitnessMemory(folder)
  const names = Array.from({ length: 16 }, (_, at) => `svc-log/own${at}`)
  memory.give(names.map((name) => keyText(name)))
  expect(() => memory.give([keyText('svc-log/more')])).toThrow('takes no more')
  memory.give([keyText('svc-log/own3', nextKey)])
  expect(openWitnessMemory(folder).find('own3')?.keys).toEqual([keyText('svc-log/own3')])
})

test('§36: what a witness signed for an earlier version stays, and a damaged memory is refused', async () => {
  const path = join(scratch, 'earlier')
  const folder = openPrivateFolder(path)
  folder.write('witness.json', { [origin]: { note: await tree(named('a', 'b')).note(), keys: [keyText(origin)] } })
  const witness = witnessIn('earlier', [])
  expect(witness.cosign(await tree(named('a', 'z', 'c')).request(2), told()).kind).toBe('inconsistent')
  expect(witness.cosign(await tree(named('a', 'b', 'c')).request(2), told()).kind).toBe('cosigned')
  writeFileSync(join(path, 'witness.json'), JSON.stringify({ [origin]: { note: 3, keys: [] } }))
  expect(() => openWitnessMemory(openPrivateFolder(path))).toThrow('damaged')
})

test('§36: a new key of the log counts once it signs beside a known one', async () => {
  const witness = witnessIn('keys')
  const keys = [keyText(origin, nextKey)]
  expect(witness.cosign(await tree(named('a'), origin, [nextKey]).request(0), told(null, keys)).kind).toBe('unsigned')
  // Named, but it did not sign.
  expect(witness.cosign(await tree(named('a')).request(0), told(null, keys)).kind).toBe('cosigned')
  const alone = await tree(named('a', 'b'), origin, [nextKey]).request(1)
  expect(witness.cosign(alone, told(null, keys)).kind).toBe('unsigned')
  const both = await tree(named('a', 'b'), origin, [nextKey, logKey]).request(1)
  expect(witness.cosign(both, told(null, keys)).kind).toBe('cosigned')
  const later = await tree(named('a', 'b', 'c'), origin, [nextKey]).request(2)
  expect(witness.cosign(later, told()).kind).toBe('cosigned')
})

test('§36: a later name of the log is signed only with the entry that says from what it went on', async () => {
  const whole = named('a', 'b', 'c')
  const seen = await tree(whole).note()
  const begun = async (folder: string) => {
    const witness = witnessIn(folder)
    expect(witness.cosign(await tree(whole).request(0), told()).kind).toBe('cosigned')
    return witness
  }
  const witness = await begun('fork')
  // From nothing, and without the entry.
  const fresh = tree(named('x', 'y', 'z', 'w'), `${origin}/2`)
  expect(witness.cosign(await fresh.request(0), told())).toMatchObject({ kind: 'behind', size: 3, seen })
  expect(witness.cosign(await fresh.request(3), told())).toMatchObject({ kind: 'behind', size: 3 })
  // An entry that names another checkpoint than the one that was signed, over a tree that lacks what was in it.
  const short = named('a')
  const wrong = await forked(short, `${origin}/2`, await tree(named('a', 'b', 'z')).note())
  expect(witness.cosign(await wrong.after.request(3, false), told(wrong.fork)).kind).toBe('inconsistent')
  // The very checkpoint, but the entry is not in the log, or is about another name.
  const right = await forked(short, `${origin}/2`, seen)
  expect(witness.cosign(await fresh.request(3, false), told(right.fork)).kind).toBe('inconsistent')
  const third = tree(right.leaves, `${origin}/1`)
  expect(witness.cosign(await third.request(3, false), told(right.fork)).kind).not.toBe('cosigned')
  expect(witness.cosign(await right.after.request(3, false), told(right.fork)).kind).toBe('cosigned')
  // From there on the earlier name is closed, and so is any other tree of the later one.
  expect(witness.cosign(await tree([...whole, leafOf('d')]).request(3), told()).kind).not.toBe('cosigned')
  const grown = tree([...right.leaves, leafOf('d')], `${origin}/2`)
  expect(witness.cosign(await grown.request(2), told()).kind).toBe('cosigned')
  const again = await forked(named('q'), `${origin}/2`, seen)
  expect(witness.cosign(await again.after.request(3, false), told(again.fork)).kind).not.toBe('cosigned')
})

test('§36: a witness whose entries are all in the forked log goes on from them', async () => {
  const witness = witnessIn('prefix')
  expect(witness.cosign(await tree(named('a', 'b')).request(0), told()).kind).toBe('cosigned')
  const { after, fork } = await forked(
    named('a', 'b', 'c'),
    `${origin}/2`,
    await tree(named('a', 'b', 'c', 'd')).note(),
  )
  expect(witness.cosign(await after.request(2, false), told(fork)).kind).toBe('inconsistent')
  expect(witness.cosign(await after.request(2), told(fork)).kind).toBe('cosigned')
})
