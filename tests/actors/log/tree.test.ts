import { expect, test } from 'bun:test'
import { appendLeaves, readSubtrees } from '../../../src/actors/log/tree.ts'
import {
  consistencyProof,
  inclusionProof,
  isConsistent,
  leafHash,
  nodeHash,
  rootByInclusion,
  type TreeHash,
} from '../../../src/protocol/log/merkle-log.ts'
import { fixture } from '../../support/run/fixture.ts'
import { testDatabase } from '../../support/run/postgres.ts'

const database = await fixture(testDatabase())

/** By the definition of the RFC. */
function defined(leaves: readonly TreeHash[]): TreeHash {
  if (leaves.length === 1) return leaves[0] as TreeHash
  let k = 1
  while (k * 2 < leaves.length) k *= 2
  return nodeHash(defined(leaves.slice(0, k)), defined(leaves.slice(k)))
}

test('§31: a tree that grows in groups over three levels of tiles has the root of the definition, and proves all of it', async () => {
  const { db } = database
  const leaves: TreeHash[] = []
  const trees: { size: number; root: TreeHash }[] = []
  for (const group of [1, 2, 252, 1, 1, 255, 4_000, 61_024, 1, 777]) {
    const added = Array.from({ length: group }, (_, at) => leafHash(Buffer.from(`${leaves.length + at}`)))
    const root = await db.transaction((tx) => appendLeaves(tx, leaves.length, added))
    leaves.push(...added)
    trees.push({ size: leaves.length, root })
    expect(root).toEqual(defined(leaves))
  }
  const last = trees.at(-1) ?? { size: 0, root: leafHash(new Uint8Array()) }
  expect(last.size).toBeGreaterThan(65_536)
  const read = readSubtrees(db)
  for (const index of [0, 1, 255, 256, 4_511, 65_535, 65_536, last.size - 1]) {
    const proof = await inclusionProof(index, last.size, read)
    expect(rootByInclusion(leaves[index] as TreeHash, index, last.size, proof)).toEqual(last.root)
  }
  for (const [at, earlier] of trees.entries()) {
    for (const later of trees.slice(at)) {
      expect(isConsistent(earlier, later, await consistencyProof(earlier.size, later.size, read))).toBe(true)
    }
  }
})
