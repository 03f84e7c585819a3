import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import { GrowingTree } from '../../protocol/log/growing-tree.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import type { Tree } from '../../protocol/log/merkle-log.ts'

const entriesAtOnce = 2_048

/** The tree that the rows of the first `size` entries give, whatever tiles and checkpoints say; smaller where rows are missing. */
export async function treeOfEntries(tx: Database, size: number): Promise<Tree> {
  const tree = GrowingTree.empty()
  let held = 0
  for (let from = 0; from < size; from += entriesAtOnce) {
    const page = await rows.readLogEntries(tx, from, Math.min(size, from + entriesAtOnce))
    if (page.length === 0) break
    for (const { entryIndex, kind, hash } of page) {
      if (entryIndex === held) held++
      tree.add(logLeaf({ kind, hash }))
    }
  }
  return { size: held, root: held === tree.size ? tree.tree().root : new Uint8Array() }
}
