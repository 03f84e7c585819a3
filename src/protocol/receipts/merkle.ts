import { createKeccak } from 'hash-wasm'

/**
 * Merkle trees as OpenZeppelin's library builds them (`@openzeppelin/merkle-tree` 1.0: complete tree, leaves sorted,
 * pairs sorted before they are hashed), so that `MerkleProof.verify` of OpenZeppelin's contracts takes our proofs
 * (§14).
 */

// A separate state, because `receipt.ts` has its own state in the middle of a receipt.
const keccak = await createKeccak(256)

export const keccak256 = (bytes: Uint8Array): Uint8Array => keccak.init().update(bytes).digest('binary')

export const toHex = (bytes: Uint8Array) => `0x${bytes.toHex()}`

/** Throws for anything but `0x` and `length` bytes. */
export function fromHex(text: string, length: number): Uint8Array {
  if (!/^0x[0-9a-fA-F]*$/.test(text) || text.length !== 2 + 2 * length)
    throw new RangeError(`not ${length} bytes in hex`)
  return Uint8Array.fromHex(text.slice(2))
}

const wordBytes = 32
/** The root of an empty tree. */
export const zeroRoot = `0x${'00'.repeat(wordBytes)}`
/** How many hashes a long computation makes between two pauses. */
const hashesPerTurn = 4_096

/** Of equal lengths, by their bytes. */
function compare(a: Uint8Array, b: Uint8Array): number {
  for (let at = 0; at < a.length; at++) {
    const difference = (a[at] ?? 0) - (b[at] ?? 0)
    if (difference !== 0) return difference
  }
  return 0
}

const pair = new Uint8Array(2 * wordBytes)
function hashPair(a: Uint8Array, b: Uint8Array): Uint8Array {
  const [first, second] = compare(a, b) <= 0 ? [a, b] : [b, a]
  pair.set(first, 0)
  pair.set(second, wordBytes)
  return keccak256(pair)
}

/** A payout as the contract hashes it. */
export interface PayoutLeaf {
  /** The payout's entry id; the contract knows it by its keccak-256. */
  readonly entryId: string
  /** An address, `0x` and 40 hex digits. */
  readonly payee: string
  readonly amountWei: bigint
}

const encoder = new TextEncoder()
/** `bytes32` under which the contract knows an id of ours. */
export const idHash = (id: string): Uint8Array => keccak256(encoder.encode(id))

/** `keccak256(keccak256(abi.encode(bytes32 id, address payee, uint256 amount)))`. */
function leafOf(id: Uint8Array, payee: string, amountWei: bigint): Uint8Array {
  if (amountWei < 0n || amountWei >= 2n ** 256n) throw new RangeError('an amount is a uint256')
  const words = new Uint8Array(3 * wordBytes)
  words.set(id, 0)
  words.set(fromHex(payee, 20), wordBytes + 12)
  words.set(fromHex(`0x${amountWei.toString(16).padStart(64, '0')}`, wordBytes), 2 * wordBytes)
  return keccak256(keccak256(words))
}

/** Of a batch of contract v1. */
export const payoutLeaf = ({ entryId, payee, amountWei }: PayoutLeaf): Uint8Array =>
  leafOf(idHash(entryId), payee, amountWei)

/**
 * The leaf of a payout as its proof names it. From contract v2 on the id is the receipt's hash itself; a batch of v1 has
 * the keccak-256 of the entry's id in its place.
 */
export function payoutLeafOf(payout: {
  readonly receiptHash: string | null
  readonly entryId: string
  readonly payee: string
  readonly amountWei: bigint
}): Uint8Array {
  const { receiptHash, entryId, payee, amountWei } = payout
  return leafOf(receiptHash === null ? idHash(entryId) : fromHex(receiptHash, wordBytes), payee, amountWei)
}

/** All nodes, root first, in one piece of memory: there may be very many. At least one leaf. */
export class MerkleTree {
  private constructor(
    private readonly nodes: Uint8Array,
    private readonly leafCount: number,
  ) {}

  /** `leaves`: 32 bytes each, in any order. Throws without any. */
  static of(leaves: readonly Uint8Array[]): MerkleTree {
    if (leaves.length === 0) throw new RangeError('a tree has at least one leaf')
    if (leaves.some(({ length }) => length !== wordBytes)) throw new RangeError('a leaf has 32 bytes')
    const tree = MerkleTree.empty(leaves.length)
    for (const [at, leaf] of [...leaves].sort(compare).entries()) tree.place(at, leaf)
    for (let at = leaves.length - 2; at >= 0; at--) tree.join(at)
    return tree
  }

  /**
   * Of receipt hashes as they are (OpenZeppelin's SimpleMerkleTree), which come in their order; null without any. `pause`
   * is awaited every few thousand hashes, so that no stream stands still meanwhile.
   */
  static async ofHashes(hashes: readonly string[], pause: () => Promise<void>): Promise<MerkleTree | null> {
    if (hashes.length === 0) return null
    const tree = MerkleTree.empty(hashes.length)
    for (const [at, hash] of hashes.entries()) {
      if (at > 0 && hash < (hashes[at - 1] ?? '')) throw new RangeError('hashes come in their order')
      tree.place(at, fromHex(hash, wordBytes))
      if (at % hashesPerTurn === 0) await pause()
    }
    for (let at = hashes.length - 2; at >= 0; at--) {
      tree.join(at)
      if (at % hashesPerTurn === 0) await pause()
    }
    return tree
  }

  root(): string {
    return toHex(this.node(0))
  }

  /** The siblings from the leaf up; null for what is no leaf. */
  proof(leaf: Uint8Array): readonly string[] | null {
    const found = this.placeOf(leaf)
    if (found === null) return null
    const siblings: string[] = []
    for (let at = found; at > 0; at = (at - 1) >> 1) siblings.push(toHex(this.node(at % 2 === 1 ? at + 1 : at - 1)))
    return siblings
  }

  private static empty(leafCount: number): MerkleTree {
    return new MerkleTree(new Uint8Array((2 * leafCount - 1) * wordBytes), leafCount)
  }

  /** Leaves stand at the end, the smallest last. */
  private place(order: number, leaf: Uint8Array): void {
    this.nodes.set(leaf, (2 * this.leafCount - 2 - order) * wordBytes)
  }

  private node(at: number): Uint8Array {
    return this.nodes.subarray(at * wordBytes, (at + 1) * wordBytes)
  }

  private join(at: number): void {
    this.nodes.set(hashPair(this.node(2 * at + 1), this.node(2 * at + 2)), at * wordBytes)
  }

  /** The last one of equal leaves, as in OpenZeppelin's library. */
  private placeOf(leaf: Uint8Array): number | null {
    const last = 2 * this.leafCount - 2
    let [low, high] = [0, this.leafCount - 1]
    while (low < high) {
      const middle = (low + high) >> 1
      if (compare(this.node(last - middle), leaf) < 0) low = middle + 1
      else high = middle
    }
    return compare(this.node(last - low), leaf) === 0 ? last - low : null
  }
}

/** Whether the proof leads from the leaf to the root. */
export function verifyProof(leaf: Uint8Array, proof: readonly string[], root: string): boolean {
  let node = leaf
  for (const sibling of proof) node = hashPair(node, fromHex(sibling, wordBytes))
  return toHex(node) === root.toLowerCase()
}
