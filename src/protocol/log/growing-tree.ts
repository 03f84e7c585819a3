import { foldSubtrees, nodeHash, subtreesOf, type Tree, type TreeHash, treeHashBytes } from './merkle-log.ts'

/** A tree of which only the roots of its complete subtrees are kept, left to right: enough to add leaves and to give the root. */
export class GrowingTree {
  private constructor(
    private count: number,
    private readonly subtrees: TreeHash[],
  ) {}

  static empty(): GrowingTree {
    return new GrowingTree(0, [])
  }

  /** null unless a tree of this size has this number of subtrees. */
  static of(size: number, subtrees: readonly TreeHash[]): GrowingTree | null {
    if (!Number.isSafeInteger(size) || size < 0 || subtreesOf(0, size).length !== subtrees.length) return null
    return subtrees.every(({ length }) => length === treeHashBytes) ? new GrowingTree(size, [...subtrees]) : null
  }

  get size(): number {
    return this.count
  }

  /** At most one for each bit of the size. */
  get hashes(): readonly TreeHash[] {
    return this.subtrees
  }

  copy(): GrowingTree {
    return new GrowingTree(this.count, [...this.subtrees])
  }

  /** Two subtrees of equal width become one, as often as the new size has zeros at its end. */
  add(leaf: TreeHash): void {
    let hash = leaf
    for (let rest = this.count; rest % 2 === 1; rest = Math.floor(rest / 2)) {
      const left = this.subtrees.pop()
      if (left === undefined) throw new Error('a subtree is missing')
      hash = nodeHash(left, hash)
    }
    this.subtrees.push(hash)
    this.count++
  }

  tree(): Tree {
    return { size: this.count, root: foldSubtrees(this.subtrees) }
  }
}
