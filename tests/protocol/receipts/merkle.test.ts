import { expect, test } from 'bun:test'
import { SimpleMerkleTree, StandardMerkleTree } from '@openzeppelin/merkle-tree'
import fc from 'fast-check'
import {
  fromHex,
  idHash,
  keccak256,
  MerkleTree,
  payoutLeaf,
  toHex,
  verifyProof,
  zeroRoot,
} from '../../../src/protocol/receipts/merkle.ts'

const noPause = async () => {}
const leafTypes = ['bytes32', 'address', 'uint256']
const word = (text: string) => fromHex(`0x${text.padStart(64, '0')}`, 32)

test('§20: the batch root', () => {
  const leaves = [
    { entryId: 'pay_1', payee: `0x${'11'.repeat(20)}`, amountWei: 5_000_000_000_000_000_000n },
    { entryId: 'pay_2', payee: `0x${'22'.repeat(20)}`, amountWei: 2_500_000_000_000_000_000n },
    { entryId: 'pay_3', payee: `0x${'33'.repeat(20)}`, amountWei: 1n },
  ].map(payoutLeaf)
  expect(MerkleTree.of(leaves).root()).toBe('0x13c3628b23f48fe388c10c9bd51db7ed25e17d1765c1bf7cc6ddbdba4760fe11')
})

test("the root that OpenZeppelin's README publishes", () => {
  // abi.encode(address, uint256), hashed twice, of the two rows of its quick start.
  const leaves = [
    ['1111111111111111111111111111111111111111', 5_000_000_000_000_000_000n],
    ['2222222222222222222222222222222222222222', 2_500_000_000_000_000_000n],
  ].map(([address, amount]) =>
    keccak256(keccak256(Buffer.concat([word(String(address)), word(BigInt(amount ?? 0).toString(16))]))),
  )
  expect(MerkleTree.of(leaves).root()).toBe('0xd4dee0beab2d53f2cc83e567171bd2820e49898130a22622b10ead383e90bd77')
})

const payout = fc.record({
  entryId: fc.string({ minLength: 1, maxLength: 30 }),
  payee: fc.uint8Array({ minLength: 20, maxLength: 20 }).map((bytes) => toHex(bytes)),
  amountWei: fc.bigInt({ min: 0n, max: 2n ** 256n - 1n }),
})
const payouts = fc.uniqueArray(payout, { minLength: 1, maxLength: 40, selector: ({ entryId }) => entryId })

test("§14: OpenZeppelin's library has the same root, takes our proofs, and we take its", () => {
  fc.assert(
    fc.property(payouts, (rows) => {
      const tree = MerkleTree.of(rows.map(payoutLeaf))
      const values = rows.map(({ entryId, payee, amountWei }) => [toHex(idHash(entryId)), payee, amountWei.toString()])
      const theirs = StandardMerkleTree.of(values, leafTypes)
      expect(tree.root()).toBe(theirs.root)
      for (const [at, row] of rows.entries()) {
        const proof = tree.proof(payoutLeaf(row)) ?? []
        expect(StandardMerkleTree.verify(theirs.root, leafTypes, values[at] ?? [], [...proof])).toBe(true)
        expect(verifyProof(payoutLeaf(row), theirs.getProof(at), theirs.root)).toBe(true)
        expect(verifyProof(payoutLeaf({ ...row, amountWei: row.amountWei ^ 1n }), proof, theirs.root)).toBe(false)
      }
      expect(tree.proof(keccak256(new Uint8Array(1)))).toBeNull()
    }),
    { numRuns: 40 },
  )
})

test('§14: the root of pending receipts is that of a SimpleMerkleTree; none without any', async () => {
  const hash = fc.uint8Array({ minLength: 32, maxLength: 32 }).map((bytes) => toHex(bytes))
  await fc.assert(
    fc.asyncProperty(fc.array(hash, { minLength: 1, maxLength: 60 }), async (any) => {
      const hashes = any.toSorted()
      const [tree, theirs] = [await MerkleTree.ofHashes(hashes, noPause), SimpleMerkleTree.of(hashes)]
      expect(tree?.root()).toBe(theirs.root)
      for (const one of hashes) {
        const proof = tree?.proof(fromHex(one, 32)) ?? []
        expect(verifyProof(fromHex(one, 32), proof, theirs.root)).toBe(true)
        expect(SimpleMerkleTree.verify(theirs.root, one, [...proof])).toBe(true)
      }
    }),
    { numRuns: 40 },
  )
  expect(await MerkleTree.ofHashes([], noPause)).toBeNull()
  expect(zeroRoot).toBe(`0x${'00'.repeat(32)}`)
})

test('an inner node is no leaf, and what is not 32 bytes is refused', () => {
  const leaves = ['a', 'b', 'c'].map(idHash)
  const tree = MerkleTree.of(leaves)
  expect(tree.proof(fromHex(tree.root(), 32))).toBeNull()
  expect(() => MerkleTree.of([new Uint8Array(31)])).toThrow(RangeError)
  expect(() => MerkleTree.of([])).toThrow(RangeError)
  expect(() => fromHex('0x12', 2)).toThrow(RangeError)
})
