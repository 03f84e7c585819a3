import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/log/log.ts'
import * as proof from '../../db/queries/log/proof.ts'
import { ledgerPart, ledgerSeqWithin, loggedWithin, partForms } from '../../db/queries/log/sources.ts'
import { factsOfRow } from '../../db/queries/money/receipts.ts'
import type { RowFault, RowRule } from '../../machines/rules/books.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { parseCheckpoint } from '../../protocol/log/checkpoint.ts'
import { batchHash, ledgerEntryHash, settledHash } from '../../protocol/log/entry-facts.ts'
import { sameHash } from '../../protocol/log/merkle-log.ts'
import { checkNote, parseNote } from '../../protocol/log/note.ts'
import { loggedRule } from '../../protocol/money/kinds.ts'
import { loggedKinds } from '../../protocol/money/logged.ts'
import { besideReceipt } from '../../protocol/receipts/node-receipt.ts'
import { receiptText, textHash, versionOf } from '../../protocol/receipts/receipt.ts'
import { toBase64url } from '../../protocol/signing/base64url.ts'
import { type SigningKey, verifyEd25519, verifyKey } from '../../protocol/signing/ed25519.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'
import { checkUnsigned } from './cutoff.ts'
import { checkLoggedHeads } from './heads-check.ts'
import { signersOf } from './log-names.ts'
import { checkPrices, checkTokens } from './marked-check.ts'
import { checkMarks } from './marks.ts'
import { checkStatements } from './payee-check.ts'
import type { ReceiptMacs } from './receipt-macs.ts'
import { treeOfEntries } from './tree.ts'

export interface BooksCheck {
  /** Rows that were recomputed. */
  readonly receipts: number
  readonly logEntries: number
  /** Receipts from before nodes signed all, which the log's cutoff bounds; null: the log has no cutoff yet. */
  readonly unsigned: number | null
  /** At most 1,000. */
  readonly faults: readonly RowFault[]
}

export interface BooksCheckPort {
  readonly db: Database
  readonly keys: readonly SigningKey[]
  /** What the sequencer has found lost; null: nothing. */
  readonly fork: () => string | null
  /** By which it knows what the gateway has marked; absent: where there is no secret but the log's key. */
  readonly marked?: { readonly macs: ReceiptMacs; readonly peppers: readonly string[] }
  /** false: of data with which no gateway has started since there is a log. */
  readonly logNeeded?: boolean
}

const treeRule = 'the log is the tree of its checkpoint'
const faultsMax = 1_000
/** Rows between two pauses: signatures of nodes are checked here, too. */
const receiptsAtOnce = 250
const ledgerEntriesAtOnce = 500

/** Recomputes the books row by row, and compares them with the public log; in one view of the database. */
export function checkBooks({ db, keys, fork, marked, logNeeded = true }: BooksCheckPort): Promise<BooksCheck> {
  return db.transaction(async (tx) => {
    await proof.holdForAudit(tx)
    const check = new RowCheck(tx)
    if (marked !== undefined) await check.checkMarked(marked)
    await check.run(keys, logNeeded)
    if (fork() !== null) check.fault('the log leads on from what was seen before', 'log')
    return check.result()
  })
}

class RowCheck {
  private readonly faults: RowFault[] = []
  private receipts = 0
  private entries = 0
  private unsigned: number | null = null

  constructor(private readonly tx: Database) {}

  result(): BooksCheck {
    return { receipts: this.receipts, logEntries: this.entries, unsigned: this.unsigned, faults: this.faults }
  }

  fault(rule: RowRule, subject: string): void {
    if (this.faults.length < faultsMax) this.faults.push({ rule, subject })
  }

  async run(keys: readonly SigningKey[], logNeeded: boolean): Promise<void> {
    for (const { rule, subject } of await proof.rowFaults(this.tx)) this.fault(rule, subject)
    await this.checkReceipts()
    const state = await rows.readLogState(this.tx)
    if (state === null) return logNeeded || (await rows.hasLog(this.tx)) ? this.fault(treeRule, 'log_state') : undefined
    const { unsigned, faults } = await checkUnsigned(this.tx)
    this.unsigned = unsigned
    for (const { rule, subject } of [...faults, ...(await checkMarks(this.tx)), ...(await checkStatements(this.tx))])
      this.fault(rule, subject)
    await this.checkLedger(state)
    await this.checkLoggedEntries(state)
    await this.checkBatches()
    await this.checkTree(state, keys)
    for (const writer of await checkLoggedHeads(this.tx)) {
      this.fault("every end of the audit's chains leads on from the log", writer)
    }
  }

  async checkMarked({ macs, peppers }: NonNullable<BooksCheckPort['marked']>): Promise<void> {
    const faults = [...(await checkPrices(this.tx, macs)), ...(await checkTokens(this.tx, peppers))]
    for (const { rule, subject } of faults) this.fault(rule, subject)
  }

  private async checkReceipts(): Promise<void> {
    for await (const page of proof.allReceipts(this.tx, receiptsAtOnce)) {
      for (const { receipt, identityKey } of page) this.checkReceipt(receipt, identityKey)
    }
  }

  private checkReceipt(row: proof.CheckedReceipt['receipt'], identityKey: Uint8Array | null): void {
    this.receipts++
    const { receiptHash: hash, signatureEd25519: signature } = row
    const facts = factsOfRow(row)
    const text = receiptText(facts)
    if (textHash(text) !== hash) this.fault('every receipt has the hash of its facts', hash)
    // Those without a signature are looked at together, by the log's cutoff.
    const bears = row.issuer === 'node' && signature !== null
    if (!bears && row.nodeReceipt === null) return
    // Of a node whose row is gone nothing more can be said than that there is one.
    const key = identityKey === null ? null : verifyKey(toBase64url(identityKey))
    // A malformed key proves nothing, and no node has enrolled with one.
    const own =
      (key === null && identityKey === null) ||
      key?.verify(receiptMessage(hash, versionOf(facts)), signature ?? '') === true
    const beside =
      row.nodeReceipt === null ||
      key === null ||
      besideReceipt(foreignJson(row.nodeReceipt), row, key) === row.nodeReceipt
    if ((bears && !own) || !beside) this.fault('every receipt of a node bears its signature', hash)
  }

  /** Each part of the ledger, from the first entry to the last that is in the log, without a gap. */
  private async checkLedger({ ledgerTo }: rows.LogState): Promise<void> {
    const rule = 'the ledger is as the log holds it'
    let reached = 0n
    for (let after = -1; ; ) {
      const parts = await proof.entriesOfKind(this.tx, 'books', after, 100)
      for (const { fromSeq, toSeq, hash } of parts) {
        const name = `seq ${reached} to ${toSeq}`
        const same = await this.isPart(reached, toSeq ?? 0n, hash)
        if (fromSeq !== reached || !same) this.fault(rule, name)
        reached = toSeq ?? reached
      }
      const last = parts.at(-1)
      if (last === undefined) break
      after = last.entryIndex
    }
    // Numbers that were drawn and never written may lie between.
    const rest = await ledgerSeqWithin(this.tx, reached, ledgerTo, 1)
    if (reached > ledgerTo || rest !== null) this.fault(rule, `seq ${reached} to ${ledgerTo}`)
  }

  /** Whether the entries are those whose hash was logged, in any form that a version has written: none can be made to fit. */
  private async isPart(from: bigint, to: bigint, hash: string): Promise<boolean> {
    for (const form of partForms) {
      const part = await ledgerPart(this.tx, from, to, Number.MAX_SAFE_INTEGER, form)
      if (part?.hash === hash && part.toSeq === to) return true
    }
    return false
  }

  private async checkLoggedEntries({ ledgerTo }: rows.LogState): Promise<void> {
    // By rows: numbers that a stranger's file claims have no bound.
    const next = (after: bigint) => ledgerSeqWithin(this.tx, after, ledgerTo, ledgerEntriesAtOnce)
    for (let from = 0n, to = await next(from); to !== null; from = to, to = await next(from)) {
      const entries = await loggedWithin(this.tx, loggedKinds, from, to)
      const held = await proof.loggedHashes(this.tx, entries.map(ledgerEntryHash))
      for (const entry of entries) {
        if (!held.has(ledgerEntryHash(entry))) this.fault(loggedRule(entry.kind), entry.entryId)
      }
    }
  }

  private async checkBatches(): Promise<void> {
    for (const { hash, batchId, merkleRoot, payoutCount, totalAmountWei } of await proof.loggedBatches(this.tx)) {
      const same =
        merkleRoot !== null &&
        payoutCount !== null &&
        totalAmountWei !== null &&
        batchHash({ batchId, merkleRoot, payoutCount, totalAmountWei }) === hash
      if (!same) this.fault('every batch is as the log holds it', batchId)
    }
    for (const { hash, batchId, txHash, blockNumber, blockHash } of await proof.loggedSettlements(this.tx)) {
      const same =
        txHash !== null &&
        blockNumber !== null &&
        blockHash !== null &&
        settledHash({ batchId, txHash, blockNumber, blockHash }) === hash
      if (!same) this.fault('every settled batch stands on the chain where the log holds it', batchId)
    }
  }

  /** The entries alone give the root, which the newest checkpoint and the tiles must have. */
  private async checkTree(state: rows.LogState, keys: readonly SigningKey[]): Promise<void> {
    const rule = treeRule
    const { size, root } = await treeOfEntries(this.tx, state.size)
    this.entries = size
    if (size !== state.size || !sameHash(root, state.root)) this.fault(rule, 'log_entries')
    const newest = await rows.newestCheckpoint(this.tx)
    if (newest === null) return state.size === 0 ? undefined : this.fault(rule, 'log_checkpoints')
    const note = parseNote(newest.note)
    const checkpoint = note === null ? null : parseCheckpoint(note.text)
    const signed =
      note === null
        ? null
        : checkNote(
            note,
            signersOf(state.origin, keys).map(({ key }) => key),
            verifyEd25519,
          )
    const holds = checkpoint?.size === state.size && sameHash(checkpoint.root, root) && (signed?.length ?? 0) > 0
    if (!holds) this.fault(rule, 'log_checkpoints')
  }
}
