import { createSHA256 } from 'hash-wasm'

/**
 * The append-only tree of RFC 9162 (§2.1) with SHA-256: hashes, proofs, and their checks. Without `node:` modules, because
 * the page that verifies runs it in a browser.
 */

/** 32 bytes. */
export type TreeHash = Uint8Array

/** A complete subtree: 2^level leaves from `index` × 2^level on. */
export interface Subtree {
  readonly level: number
  readonly index: number
}

export const treeHashBytes = 32
/** Far beyond what one log can hold, and exact as a number. */
export const treeSizeMax = 2 ** 48

// One reused state; nothing here waits between its steps.
const sha = await createSHA256()
const leafHead = Uint8Array.of(0)
/** One call of WebAssembly for each node costs a third less than three. */
const node = new Uint8Array(1 + 2 * treeHashBytes)
node[0] = 1

export const sha256 = (bytes: Uint8Array | string): Uint8Array => sha.init().update(bytes).digest('binary')
export const leafHash = (entry: Uint8Array): TreeHash => sha.init().update(leafHead).update(entry).digest('binary')
/** Of two hashes. */
export function nodeHash(left: TreeHash, right: TreeHash): TreeHash {
  if (left.length !== treeHashBytes || right.length !== treeHashBytes) throw new RangeError('a hash has 32 bytes')
  node.set(left, 1)
  node.set(right, 1 + treeHashBytes)
  return sha.init().update(node).digest('binary')
}

/** Root of no entries. */
export const emptyRoot = (): TreeHash => sha256(new Uint8Array())

export function sameHash(a: TreeHash, b: TreeHash): boolean {
  return a.length === b.length && a.every((byte, at) => byte === b[at])
}

/** The largest power of two below `count`; `count` ≥ 2. */
function split(count: number): number {
  let power = 1
  while (power * 2 < count) power *= 2
  return power
}

/** Leaves `from` to `to` as complete subtrees, left to right. `from` is where a subtree of the whole tree begins. */
export function subtreesOf(from: number, to: number): readonly Subtree[] {
  const found: Subtree[] = []
  for (let at = from; at < to; ) {
    let [level, width] = [0, 1]
    while (at % (width * 2) === 0 && at + width * 2 <= to) [level, width] = [level + 1, width * 2]
    found.push({ level, index: at / width })
    at += width
  }
  return found
}

/** The hash above subtrees that `subtreesOf` named. */
export function foldSubtrees(hashes: readonly TreeHash[]): TreeHash {
  return hashes.length === 0 ? emptyRoot() : hashes.reduceRight((right, left) => nodeHash(left, right))
}

/** Each inner list folds to one hash of the proof, from the leaf up. */
type ProofPlan = readonly (readonly Subtree[])[]

function inclusionPlan(index: number, from: number, to: number): ProofPlan {
  if (to - from <= 1) return []
  const middle = from + split(to - from)
  return index < middle
    ? [...inclusionPlan(index, from, middle), subtreesOf(middle, to)]
    : [...inclusionPlan(index, middle, to), subtreesOf(from, middle)]
}

/** SUBPROOF of RFC 9162 §2.1.4.1; `whole`: the verifier has the hash of these leaves already. */
function consistencyPlan(old: number, from: number, to: number, whole: boolean): ProofPlan {
  if (old === to) return whole ? [] : [subtreesOf(from, to)]
  const middle = from + split(to - from)
  return old <= middle
    ? [...consistencyPlan(old, from, middle, whole), subtreesOf(middle, to)]
    : [...consistencyPlan(old, middle, to, false), subtreesOf(from, middle)]
}

/** Where the hashes of complete subtrees come from: one question for all of a proof. */
export type ReadSubtrees = (wanted: readonly Subtree[]) => Promise<readonly TreeHash[]>

async function proofOf(plan: ProofPlan, read: ReadSubtrees): Promise<readonly TreeHash[]> {
  const hashes = await read(plan.flat())
  let at = 0
  return plan.map((part) => {
    at += part.length
    return foldSubtrees(hashes.slice(at - part.length, at))
  })
}

/** Throws `RangeError` unless `index` < `size`. */
export function inclusionProof(index: number, size: number, read: ReadSubtrees): Promise<readonly TreeHash[]> {
  if (!(index >= 0 && index < size)) throw new RangeError('no such entry')
  return proofOf(inclusionPlan(index, 0, size), read)
}

/** Throws `RangeError` unless `old` ≤ `size`. */
export function consistencyProof(old: number, size: number, read: ReadSubtrees): Promise<readonly TreeHash[]> {
  if (!(old >= 0 && old <= size)) throw new RangeError('no such tree')
  return old === 0 ? Promise.resolve([]) : proofOf(consistencyPlan(old, 0, size, true), read)
}

export async function rootAt(size: number, read: ReadSubtrees): Promise<TreeHash> {
  return foldSubtrees(await read(subtreesOf(0, size)))
}

/** Of all leaves of a tree, in their order. */
export function rootOfLeaves(leaves: Iterable<TreeHash>): TreeHash {
  /** Complete subtrees, left to right, each smaller than the one before. */
  const subtrees: { level: number; hash: TreeHash }[] = []
  for (const leaf of leaves) {
    let grown = { level: 0, hash: leaf }
    for (let left = subtrees.at(-1); left?.level === grown.level; left = subtrees.at(-1)) {
      subtrees.pop()
      grown = { level: grown.level + 1, hash: nodeHash(left.hash, grown.hash) }
    }
    subtrees.push(grown)
  }
  return foldSubtrees(subtrees.map(({ hash }) => hash))
}

const isOdd = (value: number) => value % 2 === 1
const half = (value: number) => Math.floor(value / 2)

/** The root that the proof leads to (RFC 9162 §2.1.3.2); null where it cannot be one. */
export function rootByInclusion(
  leaf: TreeHash,
  index: number,
  size: number,
  proof: readonly TreeHash[],
): TreeHash | null {
  if (!(Number.isSafeInteger(index) && Number.isSafeInteger(size) && index >= 0 && index < size)) return null
  let [first, last, root] = [index, size - 1, leaf]
  for (const sibling of proof) {
    if (last === 0) return null
    if (isOdd(first) || first === last) {
      root = nodeHash(sibling, root)
      while (!isOdd(first) && first !== 0) [first, last] = [half(first), half(last)]
    } else {
      root = nodeHash(root, sibling)
    }
    ;[first, last] = [half(first), half(last)]
  }
  return last === 0 ? root : null
}

/** A tree as a checkpoint names it. */
export interface Tree {
  readonly size: number
  readonly root: TreeHash
}

/** Whether `later` holds all that `earlier` held, in its order (RFC 9162 §2.1.4.2). */
export function isConsistent(earlier: Tree, later: Tree, proof: readonly TreeHash[]): boolean {
  if (!(Number.isSafeInteger(earlier.size) && Number.isSafeInteger(later.size))) return false
  if (earlier.size < 0 || earlier.size > later.size) return false
  if (earlier.size === later.size) return proof.length === 0 && sameHash(earlier.root, later.root)
  if (earlier.size === 0) return proof.length === 0 && sameHash(earlier.root, emptyRoot())
  const isPower = Number.isInteger(Math.log2(earlier.size))
  const [seed, ...path] = isPower ? [earlier.root, ...proof] : proof
  if (seed === undefined) return false
  let [first, last] = [earlier.size - 1, later.size - 1]
  while (isOdd(first)) [first, last] = [half(first), half(last)]
  let [before, after] = [seed, seed]
  for (const sibling of path) {
    if (last === 0) return false
    if (isOdd(first) || first === last) {
      before = nodeHash(sibling, before)
      after = nodeHash(sibling, after)
      while (!isOdd(first) && first !== 0) [first, last] = [half(first), half(last)]
    } else {
      after = nodeHash(after, sibling)
    }
    ;[first, last] = [half(first), half(last)]
  }
  return last === 0 && sameHash(before, earlier.root) && sameHash(after, later.root)
}
