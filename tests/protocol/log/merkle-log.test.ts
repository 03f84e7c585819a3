import { describe, expect, test } from 'bun:test'
import {
  consistencyProof,
  emptyRoot,
  foldSubtrees,
  inclusionProof,
  isConsistent,
  leafHash,
  nodeHash,
  rootAt,
  rootByInclusion,
  type Subtree,
  type TreeHash,
} from '../../../src/protocol/log/merkle-log.ts'

/** The eight entries that the tests of Certificate Transparency share, and the roots of their first n. */
const inputs = ['', '00', '10', '2021', '3031', '40414243', '5051525354555657', '606162636465666768696a6b6c6d6e6f']
const roots = [
  '6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d',
  'fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125',
  'aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77',
  'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
  '4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4',
  '76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef',
  'ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c',
  '5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328',
]
const hex = (hash: TreeHash) => Buffer.from(hash).toString('hex')
const leavesOf = (count: number) =>
  Array.from({ length: count }, (_, at) => leafHash(Buffer.from(inputs[at] ?? at.toString(16).padStart(8, '0'), 'hex')))

/** By the definition of the RFC, and by nothing of ours. */
function defined(leaves: readonly TreeHash[]): TreeHash {
  if (leaves.length === 1) return leaves[0] as TreeHash
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  return nodeHash(defined(leaves.slice(0, k)), defined(leaves.slice(k)))
}

const reader = (leaves: readonly TreeHash[]) => async (wanted: readonly Subtree[]) =>
  wanted.map(({ level, index }) => defined(leaves.slice(index * 2 ** level, (index + 1) * 2 ** level)))

describe('§31: the tree of RFC 9162', () => {
  test('no entry, and the shared vectors of one to eight', async () => {
    expect(hex(emptyRoot())).toBe('e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855')
    for (const [at, root] of roots.entries()) {
      const leaves = leavesOf(at + 1)
      expect(hex(defined(leaves))).toBe(root)
      expect(hex(await rootAt(at + 1, reader(leaves)))).toBe(root)
    }
    expect(foldSubtrees([])).toEqual(emptyRoot())
  })

  test('the published path of the first of eight entries, and the proofs 1→8, 6→8 and 2→5', async () => {
    const leaves = leavesOf(8)
    const inclusion = await inclusionProof(0, 8, reader(leaves))
    expect(inclusion.map(hex)).toEqual([
      '96a296d224f285c67bee93c30f8a309157f0daa35dc5b87e410b78630a09cfc7',
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      '6b47aaf29ee3c2af9af889bc1fb9254dabd31177f16232dd6aab035ca39bf6e4',
    ])
    const six = await consistencyProof(6, 8, reader(leaves))
    expect(six.map(hex)).toEqual([
      '0ebc5d3437fbe2db158b9f126a1d118e308181031d0a949f8dededebc558ef6a',
      'ca854ea128ed050b41b35ffc1b87b8eb2bde461e9e3b5596ece6b9d5975a0ae0',
      'd37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7',
    ])
    const two = await consistencyProof(2, 5, reader(leavesOf(5)))
    expect(two.map(hex)).toEqual([
      '5f083f0a1a33ca076a95279832580db3e0ef4584bdff1f54c8a360f50de3031e',
      'bc1a0643b12e4d2d7c77918f44e0f4f79a838b6cf9ec5b5c283e1f4d88599e6b',
    ])
  })

  test('every entry of every tree up to 40 is proven, and under no other root, place or size', async () => {
    for (let size = 1; size <= 40; size++) {
      const leaves = leavesOf(size)
      const root = defined(leaves)
      for (const [index, leaf] of leaves.entries()) {
        const proof = await inclusionProof(index, size, reader(leaves))
        expect(rootByInclusion(leaf, index, size, proof)).toEqual(root)
        expect(rootByInclusion(leaf, index + 1, size, proof)).not.toEqual(root)
        expect(rootByInclusion(leaf, index, size, [...proof, leaf])).toBeNull()
        if (proof.length > 0) expect(rootByInclusion(leaf, index, size, proof.slice(1))).not.toEqual(root)
      }
    }
  })

  test('every two trees up to 24 are consistent, and nothing else is', async () => {
    const all = leavesOf(24)
    const treeOf = (size: number) => ({ size, root: size === 0 ? emptyRoot() : defined(all.slice(0, size)) })
    for (let later = 1; later <= 24; later++) {
      for (let earlier = 0; earlier <= later; earlier++) {
        const proof = await consistencyProof(earlier, later, reader(all.slice(0, later)))
        expect(isConsistent(treeOf(earlier), treeOf(later), proof)).toBe(true)
        const forged = { size: earlier, root: leafHash(Buffer.from('other')) }
        expect(isConsistent(forged, treeOf(later), proof)).toBe(false)
        // A tree of no entries is the beginning of every other.
        const other = isConsistent(treeOf(earlier), { size: later, root: forged.root }, proof)
        expect(other).toBe(earlier === 0)
        expect(isConsistent(treeOf(earlier), treeOf(later), [...proof, forged.root])).toBe(false)
      }
    }
    expect(isConsistent(treeOf(5), treeOf(4), [])).toBe(false)
  })

  test('a place that is not there has no proof', () => {
    expect(() => inclusionProof(3, 3, reader([]))).toThrow(RangeError)
    expect(() => consistencyProof(4, 3, reader([]))).toThrow(RangeError)
  })
})
