import type { Database } from '../../db/client.ts'
import { allowTime } from '../../db/queries/log/cutoff.ts'
import { insertLogEntries, type LogState } from '../../db/queries/log/log.ts'
import { entriesOfKind } from '../../db/queries/log/proof.ts'
import { hasReceipts } from '../../db/queries/log/receipt-entries.ts'
import type { RowFault } from '../../machines/rules/books.ts'
import { marksHash } from '../../protocol/log/entry-facts.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import { inclusionProof, rootByInclusion, sameHash, type Tree } from '../../protocol/log/merkle-log.ts'
import { hourMs, isoTime } from '../../time.ts'
import { appendLeaves, readSubtrees, rootThen, treeOfEntries } from './tree.ts'

/** How long gateways of a version before marks may run beside this one after an upgrade, ms. */
const graceMs = hourMs
/** More than one is a fault. */
const entriesMax = 100

const marksEntries = (db: Database) => entriesOfKind(db, 'marks', -1, entriesMax)
type MarksEntry = Awaited<ReturnType<typeof marksEntries>>[number]

/** What the entry says, if it is what its hash holds. */
async function readUntil(tx: Database, { entryIndex: size, subject, hash }: MarksEntry): Promise<number | null> {
  const untilMs = Date.parse(subject ?? '')
  if (Number.isNaN(untilMs)) return null
  const facts = { size, root: (await rootThen(tx, size)).toHex(), unmarkedUntil: isoTime(untilMs) }
  return marksHash(facts) === hash ? untilMs : null
}

async function isInTree(tx: Database, entry: MarksEntry, tree: Tree): Promise<boolean> {
  if (entry.entryIndex >= tree.size) return false
  const proof = await inclusionProof(entry.entryIndex, tree.size, readSubtrees(tx))
  const root = rootByInclusion(logLeaf(entry), entry.entryIndex, tree.size, proof)
  return root !== null && sameHash(root, tree.root)
}

/**
 * Until when the log takes receipts without a mark, Unix ms; 0: never. null: the log has not said so yet, as its entries prove. A row of
 * an entry that was taken away or changed proves nothing.
 */
export async function unmarkedUntil(tx: Database, state: LogState): Promise<number | null> {
  const [entry] = await marksEntries(tx)
  if (entry !== undefined) return (await isInTree(tx, entry, state)) ? ((await readUntil(tx, entry)) ?? 0) : 0
  await allowTime(tx)
  const held = await treeOfEntries(tx, state.size)
  return held.size === state.size && sameHash(held.root, state.root) ? null : 0
}

/**
 * Says for all to see, once for each log, until when receipts without a mark are taken: for an hour from now where a version before
 * marks has written anything, and from now on none in a new log.
 */
export async function writeMarks(tx: Database, { size, root }: Tree, now: number) {
  const untilMs = size > 0 || (await hasReceipts(tx)) ? now + graceMs : now
  const unmarked = isoTime(untilMs)
  const hash = marksHash({ size, root: root.toHex(), unmarkedUntil: unmarked })
  const entry = { kind: 'marks', hash, subject: unmarked, entryIndex: size } as const
  await insertLogEntries(tx, [entry])
  return { untilMs, size: size + 1, root: await appendLeaves(tx, size, [logLeaf(entry)]) }
}

/** The log says so once, and as its tree holds it. */
export async function checkMarks(tx: Database): Promise<readonly RowFault[]> {
  const rule = 'the log says once until when it took receipts without a mark'
  const [entry, ...others] = await marksEntries(tx)
  if (entry === undefined) return []
  const faults: RowFault[] = others.map(({ entryIndex }) => ({ rule, subject: `entry ${entryIndex}, a second one` }))
  if ((await readUntil(tx, entry)) === null) faults.push({ rule, subject: `entry ${entry.entryIndex}` })
  return faults
}
