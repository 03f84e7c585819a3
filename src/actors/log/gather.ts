import type { Database } from '../../db/client.ts'
import type { LogState, NewLogEntry } from '../../db/queries/log/log.ts'
import * as sources from '../../db/queries/log/sources.ts'
import { auditHeadHash, batchHash, creditHash } from '../../protocol/log/entry-facts.ts'
import { versionOf } from '../../protocol/receipts/receipt.ts'
import type { SigningKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'

export type FoundEntry = Omit<NewLogEntry, 'entryIndex'>

/** What the log has not got yet, up to the fence. */
export interface Gathered {
  readonly entries: readonly FoundEntry[]
  readonly receiptsTo: bigint
  readonly ledgerTo: bigint
  /** There is more before the fence. */
  readonly more: boolean
}

const receiptsAtOnce = 2_000
const ledgerEntriesAtOnce = 5_000
const batchesAtOnce = 100
const headsAtOnce = 500

/** The receipts' own hashes; those of the gateway are signed here, beside the event loop. */
async function receiptEntries(tx: Database, state: LogState, to: bigint, key: SigningKey) {
  const found = await sources.receiptsToLog(tx, state.receiptsTo, to, receiptsAtOnce)
  const entries = await Promise.all(
    found.map(async ({ hash, issuer, clientNonce }): Promise<FoundEntry> => {
      const message = receiptMessage(hash, versionOf({ clientNonce }))
      const signatureEd25519 = issuer === 'gateway' ? await key.signSoon(message) : null
      return { kind: 'receipt', hash, signatureEd25519 }
    }),
  )
  const more = found.length === receiptsAtOnce
  return { entries, to: more ? (found.at(-1)?.seq ?? to) : to, more }
}

/** One entry for all of a part of the ledger, and one for each credit in it. */
async function ledgerEntries(tx: Database, state: LogState, to: bigint) {
  const part = await sources.ledgerPart(tx, state.ledgerTo, to, ledgerEntriesAtOnce)
  if (part === null) return { entries: [], to, more: false }
  const books: FoundEntry = { kind: 'books', hash: part.hash, fromSeq: state.ledgerTo, toSeq: part.toSeq }
  const credits = await sources.creditsWithin(tx, state.ledgerTo, part.toSeq)
  const entries = [
    books,
    ...credits.map((credit): FoundEntry => ({ kind: 'credit', hash: creditHash(credit), subject: credit.entryId })),
  ]
  return { entries, to: part.toSeq, more: part.entries === ledgerEntriesAtOnce }
}

/** `heads`: the ends of the audit's chains are due, too. */
export async function gather(
  tx: Database,
  state: LogState,
  fence: sources.Fence,
  key: SigningKey,
  heads: boolean,
): Promise<Gathered> {
  const receipts = await receiptEntries(tx, state, later(fence.receiptsTo, state.receiptsTo), key)
  const ledger = await ledgerEntries(tx, state, later(fence.ledgerTo, state.ledgerTo))
  const batches = (await sources.batchesToLog(tx, batchesAtOnce)).map(
    (batch): FoundEntry => ({ kind: 'batch', hash: batchHash(batch), subject: batch.batchId }),
  )
  const moved = heads ? await sources.headsToLog(tx, headsAtOnce) : []
  const audit = moved.map(
    (head): FoundEntry => ({ kind: 'audit', hash: auditHeadHash(head), subject: `${head.writerId}:${head.seq}` }),
  )
  return {
    entries: [...receipts.entries, ...ledger.entries, ...batches, ...audit],
    receiptsTo: receipts.to,
    ledgerTo: ledger.to,
    more: receipts.more || ledger.more,
  }
}

/** Another gateway may have gone further than this one's fence. */
const later = (a: bigint, b: bigint) => (a > b ? a : b)
