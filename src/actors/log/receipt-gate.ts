import { Type } from '@sinclair/typebox'
import { Value } from '@sinclair/typebox/value'
import type { Database } from '../../db/client.ts'
import {
  insertReceiptEntries,
  receiptsEnd,
  seqsOfGroups,
  undoReceiptEntries,
} from '../../db/queries/log/receipt-entries.ts'
import type { Log } from '../../log.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { logEntryText } from '../../protocol/log/log-entry.ts'
import { minuteMs } from '../../time.ts'
import type { MacSubject, ReceiptMacs } from './receipt-macs.ts'

export interface ReceiptGateOptions {
  readonly macs: ReceiptMacs
  readonly log: Log
  /** Unix ms. */
  readonly now: () => number
}

/** What of some receipts went into the log. */
export interface TakenReceipts {
  readonly count: number
  /** All up to this seq are in the log, or refused. */
  readonly toSeq: bigint
  readonly leaves: Uint8Array
  /** There is more, which may be taken now. */
  readonly more: boolean
}

/** How long receipts that this gateway cannot judge wait for another one that can, ms. */
export const heldMs = 10 * minuteMs
const receiptsAtOnce = 2_000
/** Receipts that change while they are read are read again. */
const triesMax = 4
const receiptHead = logEntryText({ kind: 'receipt', hash: '' })

/** A receipt, or a group of them, with the mark that it bears. */
interface WrittenReceipts extends MacSubject {
  /** Of the first and the last receipt of a group; of one receipt both are its own. */
  readonly firstSeq: bigint
  readonly lastSeq: bigint
  readonly mac: string | null
}

const text = Type.String()
const Rows = Type.Array(Type.Tuple([text, text, Type.Boolean(), text, text, Type.Union([text, Type.Null()])]))

function readWritten(written: string): readonly WrittenReceipts[] {
  const rows = foreignJson(written)
  if (!Value.Check(Rows, rows)) throw new Error('receipts of another form')
  return rows.map(([first, last, group, hashes, customers, mac]) => ({
    firstSeq: BigInt(first),
    lastSeq: BigInt(last),
    group,
    hashes,
    customers,
    mac,
  }))
}

interface Judged {
  readonly refused: readonly WrittenReceipts[]
  /** The first one that waits; null: none does. */
  readonly held: WrittenReceipts | null
}

/**
 * Lets into the log what bears the mark of a process with the secrets (§36). A wrong mark is refused at once. What has none, or one by a
 * key that is not known here, may be of a gateway of another version or with a newer key: it waits, so that that one can take it, and is
 * refused then. What is refused stays where it is, without an entry: the check of the books names it.
 */
export class ReceiptGate {
  /** Since when, and up to which seq, receipts wait. */
  private waiting: { readonly sinceMs: number; readonly to: bigint } | null = null
  private toldTo = 0n

  constructor(private readonly options: ReceiptGateOptions) {}

  /** `plainUntilMs`: until then receipts without a mark are taken, too. */
  async take(
    tx: Database,
    { from, to, size, plainUntilMs }: { from: bigint; to: bigint; size: number; plainUntilMs: number },
  ): Promise<TakenReceipts> {
    if (this.waiting !== null && from >= this.waiting.to) this.waiting = null
    let end = await receiptsEnd(tx, from, to, receiptsAtOnce)
    let held = false
    const skip: bigint[] = []
    for (let tries = 0; tries < triesMax; tries++) {
      if (end <= from) return { count: 0, toSeq: from, leaves: new Uint8Array(), more: false }
      const entries = await insertReceiptEntries(tx, { from, to: end, size, head: receiptHead, skip })
      const judged = this.judge(readWritten(entries.written), to, plainUntilMs)
      if (judged.refused.length === 0 && judged.held === null) {
        return { count: entries.count, toSeq: end, leaves: entries.leaves, more: end < to && !held }
      }
      await undoReceiptEntries(tx, size)
      skip.push(...(await this.refuse(tx, judged.refused)))
      if (judged.held !== null) {
        held = true
        end = judged.held.firstSeq - 1n
      }
    }
    throw new Error('receipts change while they are read')
  }

  private judge(written: readonly WrittenReceipts[], to: bigint, plainUntilMs: number): Judged {
    const now = this.options.now()
    const refused: WrittenReceipts[] = []
    for (const receipts of written) {
      const verdict = this.options.macs.judge(receipts.mac, receipts)
      if (verdict === 'holds' || (receipts.mac === null && now < plainUntilMs)) continue
      if (verdict === 'unknown' && this.waits(receipts, now, to)) return { refused, held: receipts }
      refused.push(receipts)
    }
    return { refused, held: null }
  }

  private waits({ firstSeq, mac }: WrittenReceipts, now: number, to: bigint): boolean {
    if (this.waiting === null) {
      this.waiting = { sinceMs: now, to }
      // One by a key that is not known here is what a rotation makes.
      if (mac === null) this.options.log.error('receipt_forged', { first_seq: String(firstSeq), waits: true })
      else this.options.log.warn('receipts_of_another_key', { first_seq: String(firstSeq) })
    }
    return firstSeq > this.waiting.to || now - this.waiting.sinceMs < heldMs
  }

  /** Their numbers, and an alarm for those of which there was none before. */
  private async refuse(tx: Database, refused: readonly WrittenReceipts[]): Promise<readonly bigint[]> {
    if (refused.length === 0) return []
    const newest = refused.reduce((most, { lastSeq }) => (lastSeq > most ? lastSeq : most), 0n)
    if (newest > this.toldTo) {
      this.toldTo = newest
      this.options.log.error('receipt_forged', { rows: refused.length, first_seq: String(refused[0]?.firstSeq) })
    }
    const groups = refused.filter(({ group }) => group).map(({ lastSeq }) => lastSeq)
    const alone = refused.filter(({ group }) => !group).map(({ lastSeq }) => lastSeq)
    return [...alone, ...(await seqsOfGroups(tx, groups))]
  }
}
