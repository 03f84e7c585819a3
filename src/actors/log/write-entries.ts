import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import * as sources from '../../db/queries/log/sources.ts'
import { statementSubject, statementsToLog } from '../../db/queries/pool/payee-statements.ts'
import { auditHeadHash, batchHash, ledgerEntryHash, settledHash } from '../../protocol/log/entry-facts.ts'
import { logLeaf } from '../../protocol/log/log-entry.ts'
import { type TreeHash, treeHashBytes } from '../../protocol/log/merkle-log.ts'
import { type LoggedEntry, loggedKinds, loggedName, mayLack } from '../../protocol/money/logged.ts'
import type { Reach } from './log-fences.ts'
import { statementHash } from './payee-check.ts'
import type { ReceiptGate } from './receipt-gate.ts'

type FoundEntry = Omit<rows.NewLogEntry, 'entryIndex'>

/** What was written behind the entries that the log had. */
export interface Written {
  /** In their order. */
  readonly leaves: readonly TreeHash[]
  readonly receiptsTo: bigint
  readonly ledgerTo: bigint
  /** There is more that it reaches. */
  readonly more: boolean
}

const ledgerEntriesAtOnce = 5_000
const lackingAtOnce = 500
const batchesAtOnce = 100
/** The most receipts behind those that the log has, by their numbers, among which those of batches are looked for. */
const laterReceiptsMax = 1_000_000n
const headsAtOnce = 500
const statementsAtOnce = 500

const entryOf = (entry: LoggedEntry): FoundEntry => ({
  kind: loggedName(entry.kind),
  hash: ledgerEntryHash(entry),
  subject: entry.entryId,
})
const withTheirPart = loggedKinds.filter((kind) => !mayLack(kind))

/** One entry for all of a part of the ledger, and one for each entry in it that has its own. */
async function ledgerEntries(tx: Database, state: rows.LogState, to: bigint) {
  const part = await sources.ledgerPart(tx, state.ledgerTo, to, ledgerEntriesAtOnce, state.byGroups ? 3 : 2)
  if (part === null) return { entries: [], to, more: false }
  const books: FoundEntry = { kind: 'books', hash: part.hash, fromSeq: state.ledgerTo, toSeq: part.toSeq }
  const own = await sources.loggedWithin(tx, withTheirPart, state.ledgerTo, part.toSeq)
  return { entries: [books, ...own.map(entryOf)], to: part.toSeq, more: part.toSeq < to }
}

/** What a gateway of a version before has left out. */
async function lackingEntries(tx: Database) {
  const found: (readonly LoggedEntry[])[] = []
  for (const kind of loggedKinds.filter(mayLack)) found.push(await sources.lackingOf(tx, kind, lackingAtOnce))
  return { entries: found.flat().map(entryOf), more: found.some(({ length }) => length === lackingAtOnce) }
}

/** Behind a fence that was kept for long there are too many receipts to look among. The next turn's is new. */
const isFarBehind = async (tx: Database, receiptsTo: bigint): Promise<boolean> =>
  (await sources.newestReceipt(tx)) - receiptsTo > laterReceiptsMax
const noBatches = { entries: [], more: false }

/**
 * Batches, and where they stand on the chain, behind the receipts that they pay for: a monitor reports a batch whose receipts the log lacks. Receipts come
 * up to where they were a turn before, and a batch may have been made since then. `receiptsTo`: the log has all receipts up to this seq, or they were kept out.
 */
async function batchEntries(tx: Database, receiptsTo: bigint) {
  const batches = await sources.batchesToLog(tx, batchesAtOnce)
  const settled = await sources.settledToLog(tx, batchesAtOnce)
  const found = [...batches, ...settled]
  if (found.length === 0 || (await isFarBehind(tx, receiptsTo))) return noBatches
  const waiting = await sources.batchesAhead(tx, found, receiptsTo)
  const isReady = ({ batchId }: { readonly batchId: string }) => !waiting.has(batchId)
  const entries = [
    ...batches
      .filter(isReady)
      .map((batch): FoundEntry => ({ kind: 'batch', hash: batchHash(batch), subject: batch.batchId })),
    ...settled
      .filter(isReady)
      .map((batch): FoundEntry => ({ kind: 'settled', hash: settledHash(batch), subject: batch.batchId })),
  ]
  const isFull = batches.length === batchesAtOnce || settled.length === batchesAtOnce
  return { entries, more: isFull && entries.length > 0 }
}

/** `heads`: the ends of the audit's chains are due, too. */
async function otherEntries(
  tx: Database,
  state: rows.LogState,
  reach: Reach,
  heads: boolean,
  batches: readonly FoundEntry[],
) {
  const ledger = await ledgerEntries(tx, state, later(reach.ledgerTo, state.ledgerTo))
  const lacking = await lackingEntries(tx)
  const payees = (await statementsToLog(tx, statementsAtOnce)).map(
    (statement): FoundEntry => ({
      kind: 'payee',
      hash: statementHash(statement),
      subject: statementSubject(statement),
    }),
  )
  const moved = heads ? await sources.headsToLog(tx, headsAtOnce) : []
  const audit = moved.map(
    (head): FoundEntry => ({ kind: 'audit', hash: auditHeadHash(head), subject: `${head.writerId}:${head.seq}` }),
  )
  const more =
    ledger.more || lacking.more || payees.length === statementsAtOnce || (heads && moved.length === headsAtOnce)
  return {
    ...ledger,
    more,
    entries: [...ledger.entries, ...lacking.entries, ...batches, ...payees, ...audit],
  }
}

/** Writes what the log has not got yet, as far as it reaches. */
export async function writeEntries(
  tx: Database,
  state: rows.LogState,
  reach: Reach,
  heads: boolean,
  { gate, plainUntilMs }: { readonly gate: ReceiptGate; readonly plainUntilMs: number },
): Promise<Written> {
  const to = later(reach.receiptsTo, state.receiptsTo)
  const receipts = await gate.take(tx, { from: state.receiptsTo, to, size: state.size, plainUntilMs })
  // While receipts wait for an open transaction, or come in a further step, batches wait, too: they may pay for one of them.
  const isBehind = reach.receiptsTo === null || receipts.more
  const batches = isBehind ? noBatches : await batchEntries(tx, receipts.toSeq)
  const others = await otherEntries(tx, state, reach, heads, batches.entries)
  const size = state.size + receipts.count
  await rows.insertLogEntries(
    tx,
    others.entries.map((entry, place) => ({ ...entry, entryIndex: size + place })),
  )
  return {
    leaves: [...hashesIn(receipts.leaves), ...others.entries.map(logLeaf)],
    receiptsTo: receipts.toSeq,
    ledgerTo: others.to,
    more: receipts.more || batches.more || others.more,
  }
}

const hashesIn = (leaves: Uint8Array): readonly TreeHash[] =>
  Array.from({ length: leaves.length / treeHashBytes }, (_, at) =>
    leaves.subarray(at * treeHashBytes, (at + 1) * treeHashBytes),
  )

/** Another gateway may have gone further than this one's fence. null: no further now. */
const later = (to: bigint | null, reached: bigint) => (to !== null && to > reached ? to : reached)
