import { createKeccak } from 'hash-wasm'

/**
 * Merkle trees as OpenZeppelin's library builds them (`@openzeppelin/merkle-tree` 1.0: complete tree, leaves sorted,
 * pairs sorted before they are hashed), so that `MerkleProof.verify` of OpenZeppelin's contracts takes our proofs
 * (decisions §14).
 */

// Of its own: `receipt.ts` has another state in the middle of a receipt.
const keccak = await createKeccak(256)

export const keccak256 = (bytes: Uint8Array): Uint8Array => keccak.init().update(bytes).digest('binary')

export const toHex = (bytes: Uint8Array) =>
  `0x${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('hex')}`

/** Throws for anything but `0x` and `length` bytes. */
export function fromHex(text: string, length: number): Uint8Array {
  if (!/^0x[0-9a-fA-F]*$/.test(text) || text.length !== 2 + 2 * length)
    throw new RangeError(`not ${length} bytes in hex`)
  return new Uint8Array(Buffer.from(text.slice(2), 'hex'))
}

const wordBytes = 32
const zeroRoot = `0x${'00'.repeat(wordBytes)}`
/** Between two pauses of a long computation. */
const hashesPerTurn = 4_096

const compare = (a: Uint8Array, b: Uint8Array) => Buffer.compare(a, b)

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

/** `keccak256(keccak256(abi.encode(bytes32 keccak256(entry_id), address payee, uint256 amount)))`. */
export function payoutLeaf({ entryId, payee, amountWei }: PayoutLeaf): Uint8Array {
  if (amountWei < 0n || amountWei >= 2n ** 256n) throw new RangeError('an amount is a uint256')
  const words = new Uint8Array(3 * wordBytes)
  words.set(idHash(entryId), 0)
  words.set(fromHex(payee, 20), wordBytes + 12)
  words.set(fromHex(`0x${amountWei.toString(16).padStart(64, '0')}`, wordBytes), 2 * wordBytes)
  return keccak256(keccak256(words))
}

/** All nodes, root first; at least one leaf. */
export class MerkleTree {
  private readonly nodes: readonly Uint8Array[]

  private constructor(nodes: readonly Uint8Array[]) {
    this.nodes = nodes
  }

  /** `leaves`: 32 bytes each, in any order. Throws without any. */
  static of(leaves: readonly Uint8Array[]): MerkleTree {
    const nodes = leafNodes(leaves)
    for (let at = leaves.length - 2; at >= 0; at--) nodes[at] = parent(nodes, at)
    return new MerkleTree(nodes)
  }

  root(): string {
    return toHex(nodeAt(this.nodes, 0))
  }

  /** The siblings from the leaf up; null for what is no leaf. */
  proof(leaf: Uint8Array): readonly string[] | null {
    let at = this.nodes.findLastIndex((node) => compare(node, leaf) === 0)
    if (at < (this.nodes.length - 1) / 2) return null
    const siblings: string[] = []
    while (at > 0) {
      siblings.push(toHex(nodeAt(this.nodes, at % 2 === 1 ? at + 1 : at - 1)))
      at = (at - 1) >> 1
    }
    return siblings
  }
}

function nodeAt(nodes: readonly (Uint8Array | undefined)[], at: number): Uint8Array {
  const node = nodes[at]
  if (node === undefined) throw new RangeError('no such node')
  return node
}

const parent = (nodes: readonly Uint8Array[], at: number) =>
  hashPair(nodeAt(nodes, 2 * at + 1), nodeAt(nodes, 2 * at + 2))

/** Leaves stand at the end, the smallest last. */
function leafNodes(leaves: readonly Uint8Array[]): Uint8Array[] {
  if (leaves.length === 0) throw new RangeError('a tree has at least one leaf')
  if (leaves.some(({ length }) => length !== wordBytes)) throw new RangeError('a leaf has 32 bytes')
  const nodes = new Array<Uint8Array>(2 * leaves.length - 1)
  for (const [at, leaf] of [...leaves].sort(compare).entries()) nodes[nodes.length - 1 - at] = leaf
  return nodes
}

/** Whether the proof leads from the leaf to the root. */
export function verifyProof(leaf: Uint8Array, proof: readonly string[], root: string): boolean {
  let node = leaf
  for (const sibling of proof) node = hashPair(node, fromHex(sibling, wordBytes))
  return toHex(node) === root.toLowerCase()
}

/**
 * Root over receipt hashes as they are (OpenZeppelin's SimpleMerkleTree); 0 without any. There may be very many: `pause`
 * is awaited every few thousand hashes, so that no stream stands still meanwhile.
 */
export async function rootOfHashes(hashes: readonly string[], pause: () => Promise<void>): Promise<string> {
  if (hashes.length === 0) return zeroRoot
  const nodes = leafNodes(hashes.map((hash) => fromHex(hash, wordBytes)))
  for (let at = hashes.length - 2; at >= 0; at--) {
    nodes[at] = parent(nodes, at)
    if (at % hashesPerTurn === 0) await pause()
  }
  return toHex(nodeAt(nodes, 0))
}
