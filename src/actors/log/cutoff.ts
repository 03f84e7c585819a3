import { createHash } from 'node:crypto'
import type { Database } from '../../db/client.ts'
import { allowTime, cutoffSubject, readCutoffs, unsignedBefore, unsignedSince } from '../../db/queries/log/cutoff.ts'
import { insertLogEntries } from '../../db/queries/log/log.ts'
import type { RowFault } from '../../machines/rules/books.ts'
import { cutoffHash } from '../../protocol/log/entry-facts.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import type { TreeHash } from '../../protocol/log/merkle-log.ts'
import { appendLeaves, rootThen } from './tree.ts'

/** How many there are, and a hash over all of them: what a cutoff says of the receipts that it bounds. */
async function unsignedSet(tx: Database, entryIndex: number) {
  const sum = createHash('sha256')
  let unsigned = 0
  for await (const hashes of unsignedBefore(tx, entryIndex)) {
    unsigned += hashes.length
    for (const hash of hashes) sum.update(`${hash}\n`)
  }
  return { unsigned, unsignedHash: `0x${sum.digest('hex')}` }
}

/** Whether the class of receipts without their node's signature is closed. */
export const isCutOff = async (db: Database): Promise<boolean> => (await readCutoffs(db)).length > 0

/**
 * Closes the class behind the entries that the log has: what it took before without a signature is from before nodes
 * signed all, and whatever comes later without one is a fault (§31). Resolves with the new root.
 */
export async function writeCutoff(tx: Database, size: number, root: TreeHash): Promise<TreeHash> {
  await allowTime(tx)
  const set = await unsignedSet(tx, size)
  const hash = cutoffHash({ size, root: root.toHex(), ...set })
  const entry = { kind: 'cutoff', hash, entryIndex: size, subject: cutoffSubject(set) } as const
  await insertLogEntries(tx, [entry])
  return appendLeaves(tx, size, [logLeaf(entry)])
}

const lateMax = 1_000

/**
 * Receipts of nodes without a signature: those that the log took before its cutoff must be the very ones that it counted,
 * and there may be no others. `unsigned` null: the first start has not written a cutoff yet, and nothing is said of them.
 */
export async function checkUnsigned(
  tx: Database,
): Promise<{ readonly unsigned: number | null; readonly faults: readonly RowFault[] }> {
  const rule = 'the receipts without one are as the cutoff in the log holds them'
  const [cutoff, ...others] = await readCutoffs(tx)
  if (cutoff === undefined) return { unsigned: null, faults: [] }
  const faults: RowFault[] = others.map(({ entryIndex }) => ({ rule, subject: `entry ${entryIndex}, a second cutoff` }))
  const { entryIndex: size, hash } = cutoff
  const set = await unsignedSet(tx, size)
  const root = (await rootThen(tx, size)).toHex()
  if (cutoffHash({ size, root, ...set }) !== hash) {
    faults.push({ rule, subject: `${set.unsigned} receipts before entry ${size}, which holds ${cutoff.unsigned}` })
  }
  for (const subject of await unsignedSince(tx, size, lateMax)) {
    faults.push({ rule: 'every receipt of a node bears its signature', subject })
  }
  return { unsigned: set.unsigned, faults }
}
