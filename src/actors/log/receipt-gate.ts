import type { Database } from '../../db/client.ts'
import {
  insertReceiptEntries,
  receiptsEnd,
  seqsOfGroups,
  undoReceiptEntries,
} from '../../db/queries/log/receipt-entries.ts'
import { insertWaiting } from '../../db/queries/log/waiting-receipts.ts'
import type { Log } from '../../log.ts'
import { LateReceipts } from './late-receipts.ts'
import type { ReceiptMacs } from './receipt-macs.ts'
import { type GateVerdict, readWritten, receiptHead, type WrittenReceipts } from './written-receipts.ts'

export interface ReceiptGateOptions {
  readonly macs: ReceiptMacs
  readonly log: Log
  /** Unix ms. */
  readonly now: () => number
}

/** What of some receipts went into the log. */
export interface TakenReceipts {
  readonly count: number
  /** All up to this seq are in the log, or were kept out. */
  readonly toSeq: bigint
  readonly leaves: Uint8Array
  /** There is more, which may be taken now. */
  readonly more: boolean
}

export interface GateRange {
  readonly from: bigint
  readonly to: bigint
  readonly size: number
  /** Until then receipts without a mark are taken, too; Unix ms. */
  readonly plainUntilMs: number
}

const receiptsAtOnce = 2_000
/** Receipts that change while they are read are read again. */
const triesMax = 4

/**
 * Lets into the log what bears the mark of a process with the secrets (§36), and goes past all else, so that no forged row holds the log up. A
 * wrong mark is refused for ever. What has none, or one by a key that is not known here, may be of a gateway of another version or with a
 * newer key: it waits for one that can judge it (`late-receipts.ts`). The check of the books names whatever has no entry.
 */
export class ReceiptGate {
  private announcedTo = 0n
  private readonly late: LateReceipts
  private kept = 0

  constructor(private readonly options: ReceiptGateOptions) {
    this.late = new LateReceipts({
      now: options.now,
      judge: (receipts, plainUntilMs) => this.judge(receipts, plainUntilMs),
      alarm: (receipts) => this.alarm(receipts),
    })
  }

  /** Receipts and groups of them that this process has kept out of the log as forged. */
  forged(): number {
    return this.kept
  }

  async take(tx: Database, range: GateRange): Promise<TakenReceipts> {
    const taken = await this.takeNew(tx, range)
    const late = await this.late.take(tx, { ...range, to: taken.toSeq, size: range.size + taken.count })
    return {
      count: taken.count + late.count,
      toSeq: taken.toSeq,
      leaves: late.count === 0 ? taken.leaves : Buffer.concat([taken.leaves, late.leaves]),
      more: taken.more || late.more,
    }
  }

  private async takeNew(tx: Database, { from, to, size, plainUntilMs }: GateRange): Promise<TakenReceipts> {
    const end = await receiptsEnd(tx, from, to, receiptsAtOnce)
    if (end <= from) return { count: 0, toSeq: from, leaves: new Uint8Array(), more: false }
    const skip: bigint[] = []
    for (let tries = 0; tries < triesMax; tries++) {
      const entries = await insertReceiptEntries(tx, { from, to: end, size, head: receiptHead, skip })
      const out = readWritten(entries.written).filter((receipts) => this.judge(receipts, plainUntilMs) !== 'taken')
      if (out.length === 0) return { count: entries.count, toSeq: end, leaves: entries.leaves, more: end < to }
      await undoReceiptEntries(tx, size)
      skip.push(...(await this.keepOut(tx, out)))
    }
    throw new Error('receipts change while they are read')
  }

  private judge(receipts: WrittenReceipts, plainUntilMs: number): GateVerdict {
    const verdict = this.options.macs.judge(receipts.mac, receipts)
    if (verdict === 'holds' || (receipts.mac === null && this.options.now() < plainUntilMs)) return 'taken'
    return verdict === 'unknown' ? 'waits' : 'refused'
  }

  /** Resolves with the numbers of all of them. */
  private async keepOut(tx: Database, out: readonly WrittenReceipts[]): Promise<readonly bigint[]> {
    const waiting = out.filter((receipts) => this.judge(receipts, 0) === 'waits')
    await insertWaiting(tx, waiting)
    this.tell(out.filter(({ lastSeq }) => lastSeq > this.announcedTo))
    const alone = out.filter(({ group }) => !group).map(({ lastSeq }) => lastSeq)
    const groups = out.filter(({ group }) => group).map(({ lastSeq }) => lastSeq)
    return [...alone, ...(await seqsOfGroups(tx, groups))]
  }

  /** Once for each, though its transaction may be lost and done again. */
  private tell(out: readonly WrittenReceipts[]): void {
    // One by a key that is not known here is what a rotation makes.
    const foreign = out.filter((receipts) => receipts.mac !== null && this.judge(receipts, 0) === 'waits')
    this.alarm(out.filter((receipts) => !foreign.includes(receipts)))
    const [first] = foreign
    if (first !== undefined)
      this.options.log.warn('receipts_of_another_key', { rows: foreign.length, first_seq: String(first.firstSeq) })
    this.announcedTo = out.reduce((most, { lastSeq }) => (lastSeq > most ? lastSeq : most), this.announcedTo)
  }

  private alarm(forged: readonly WrittenReceipts[]): void {
    const [first] = forged
    if (first === undefined) return
    this.kept += forged.length
    this.options.log.error('receipt_forged', { rows: forged.length, first_seq: String(first.firstSeq) })
  }
}
