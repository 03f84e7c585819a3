import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import { foldSubtrees, subtreesOf, type Tree, type TreeHash } from '../../protocol/log/merkle-log.ts'

const entriesAtOnce = 2_048

/** A complete subtree. */
interface Folded {
  readonly width: number
  readonly hash: TreeHash
}

/** The tree that the rows of the first `size` entries give, whatever tiles and checkpoints say; smaller where rows are missing. */
export async function treeOfEntries(tx: Database, size: number): Promise<Tree> {
  const stack: Folded[] = []
  let held = 0
  for (let from = 0; from < size; from += entriesAtOnce) {
    const page = await rows.readLogEntries(tx, from, Math.min(size, from + entriesAtOnce))
    if (page.length === 0) break
    for (const { entryIndex, kind, hash } of page) {
      if (entryIndex === held) held++
      push(stack, logLeaf({ kind, hash }))
    }
  }
  const whole = subtreesOf(0, held).length === stack.length
  return { size: held, root: whole ? foldSubtrees(stack.map(({ hash }) => hash)) : new Uint8Array() }
}

/** Complete subtrees of equal width become one. */
function push(stack: Folded[], leaf: TreeHash): void {
  let node = { width: 1, hash: leaf }
  while (stack.at(-1)?.width === node.width) {
    const left = stack.pop()
    if (left !== undefined) node = { width: node.width * 2, hash: foldSubtrees([left.hash, node.hash]) }
  }
  stack.push(node)
}
