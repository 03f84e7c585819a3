import type { Database } from '../../db/client.ts'
import {
  deleteWaiting,
  insertLateEntries,
  readWaiting,
  type WaitingPage,
} from '../../db/queries/log/waiting-receipts.ts'
import { minuteMs } from '../../time.ts'
import { type GateVerdict, readWritten, receiptHead, type WrittenReceipts } from './written-receipts.ts'

/** A rotation makes receipts by another key for this long, ms: the alarm comes after it. */
const rotationMs = 10 * minuteMs
/** Receipts and groups that are looked at in one turn; the next turn looks at the next ones. */
const waitingAtOnce = 200
const none = new Uint8Array()

interface LateOptions {
  /** Unix ms. */
  readonly now: () => number
  readonly judge: (receipts: WrittenReceipts, plainUntilMs: number) => GateVerdict
  readonly alarm: (forged: readonly WrittenReceipts[]) => void
}

interface LateRange {
  /** The log has gone past all up to this seq. */
  readonly to: bigint
  readonly size: number
  readonly plainUntilMs: number
}

/** What waits for a gateway that can judge its mark: this one may have a key that the one before did not, or take what has no mark. */
export class LateReceipts {
  /** The seq up to which those that wait were looked at. */
  private after = 0n
  /** The seq up to which those by another key have waited for too long, with an alarm. */
  private announcedTo = 0n

  constructor(private readonly options: LateOptions) {}

  async take(tx: Database, { to, size, plainUntilMs }: LateRange) {
    const page = await readWaiting(tx, { after: this.after, to, limit: waitingAtOnce })
    const last = page.waiting.at(-1)
    if (last === undefined) {
      this.after = 0n
      return { count: 0, leaves: none, more: false }
    }
    this.after = page.waiting.length < waitingAtOnce ? 0n : last.lastSeq
    const written = readWritten(page.written)
    const judged = written.map((receipts) => ({ receipts, verdict: this.options.judge(receipts, plainUntilMs) }))
    const those = (wanted: GateVerdict) =>
      judged.flatMap(({ receipts, verdict }) => (verdict === wanted ? [receipts] : []))
    const [taken, refused] = [those('taken'), those('refused')]
    this.options.alarm([...refused, ...this.overdue(page.waiting, those('waits'))])
    const entries =
      taken.length === 0
        ? { count: 0, leaves: none }
        : await insertLateEntries(tx, taken, { size, to, head: receiptHead })
    const gone = page.waiting.filter(
      (one) => !written.some((row) => row.lastSeq === one.lastSeq && row.group === one.group),
    )
    await deleteWaiting(tx, [...taken, ...refused, ...gone])
    return { ...entries, more: taken.length > 0 && page.waiting.length === waitingAtOnce }
  }

  /** By another key, for longer than a rotation takes. Each is named once; what has no mark was named at once. */
  private overdue(waiting: WaitingPage['waiting'], written: readonly WrittenReceipts[]): readonly WrittenReceipts[] {
    const since = this.options.now() - rotationMs
    const old = new Set(waiting.flatMap(({ lastSeq, sinceMs }) => (sinceMs <= since ? [lastSeq] : [])))
    const overdue = written.filter(({ mac, lastSeq }) => mac !== null && lastSeq > this.announcedTo && old.has(lastSeq))
    this.announcedTo = overdue.at(-1)?.lastSeq ?? this.announcedTo
    return overdue
  }
}
