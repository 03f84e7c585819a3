import { expect, test } from 'bun:test'
import fc from 'fast-check'
import { GrowingTree } from '../../../src/protocol/log/growing-tree.ts'
import { leafHash, nodeHash, type TreeHash } from '../../../src/protocol/log/merkle-log.ts'
import { entryBundle, parseEntryBundle } from '../../../src/protocol/log/tiles.ts'

const leaf = (at: number) => leafHash(new TextEncoder().encode(`entry ${at}`))
/** By the definition of RFC 9162 §2.1.1. */
function rootOf(leaves: readonly TreeHash[]): TreeHash {
  const [only] = leaves
  if (only !== undefined && leaves.length === 1) return only
  const middle = 2 ** Math.ceil(Math.log2(leaves.length) - 1)
  return nodeHash(rootOf(leaves.slice(0, middle)), rootOf(leaves.slice(middle)))
}

test('a tree that grows leaf by leaf has the root of RFC 9162, and keeps a hash for each bit of its size', () => {
  const tree = GrowingTree.empty()
  const leaves: TreeHash[] = []
  for (let size = 1; size <= 300; size++) {
    leaves.push(leaf(size))
    tree.add(leaf(size))
    expect(tree.tree()).toEqual({ size, root: rootOf(leaves) })
    expect(tree.hashes.length).toBe(size.toString(2).replaceAll('0', '').length)
  }
})

test('a tree that was kept goes on as the one that was not, and its copy is its own', () => {
  fc.assert(
    fc.property(fc.nat(600), fc.nat(600), (before, after) => {
      const tree = GrowingTree.empty()
      for (let at = 0; at < before; at++) tree.add(leaf(at))
      const [kept, copy] = [GrowingTree.of(before, tree.hashes), tree.copy()]
      for (let at = before; at < before + after; at++) for (const one of [tree, kept]) one?.add(leaf(at))
      expect(kept?.tree()).toEqual(tree.tree())
      expect(copy.size).toBe(before)
    }),
    { numRuns: 50 },
  )
})

test('what is no tree is none', () => {
  const hashes = [leaf(1), leaf(2)]
  expect(GrowingTree.of(3, hashes)?.size).toBe(3)
  for (const size of [-1, 0.5, 1, 2, 4, 7, 2 ** 60]) expect(GrowingTree.of(size, hashes)).toBeNull()
  expect(GrowingTree.of(3, [leaf(1), new Uint8Array(31)])).toBeNull()
})

test('a bundle of entries is read as it was written, and cut or with another number it is none', () => {
  const entries = [new Uint8Array(), new Uint8Array(300).fill(7), new TextEncoder().encode('svc')]
  const bundle = entryBundle(entries)
  expect(parseEntryBundle(bundle, 3)).toEqual(entries)
  for (const count of [0, 2, 4]) expect(parseEntryBundle(bundle, count)).toBeNull()
  for (let length = 1; length < bundle.length; length += 7)
    expect(parseEntryBundle(bundle.subarray(0, length), 3)).toBeNull()
  expect(parseEntryBundle(new Uint8Array(), 0)).toEqual([])
})
