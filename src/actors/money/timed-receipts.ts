import type { Database } from '../../db/client.ts'
import { receiptsIssuedFrom } from '../../db/queries/money/receipts.ts'
import { hourMs } from '../../time.ts'

/** As long as the migration waits, and no longer: a row that says another time would keep the times out of receipts. */
const waitMsMax = hourMs

/**
 * Whether this gateway issues receipts v3, which say when they were issued (§36; docs/decisions/0039). In a database that a version
 * before has written to, it begins an hour after the upgrade: a gateway of that version reads such a receipt as one of v1 or v2.
 */
export class TimedReceipts {
  /** Unix ms. */
  private fromMs = Number.POSITIVE_INFINITY

  constructor(
    private readonly db: Database,
    private readonly now: () => number = Date.now,
  ) {}

  async start(): Promise<void> {
    const fromMs = (await receiptsIssuedFrom(this.db)).getTime()
    const lateMs = this.now() + waitMsMax
    // `infinity` is NaN here.
    this.fromMs = fromMs <= lateMs ? fromMs : lateMs
  }

  readonly issued = (): boolean => this.now() >= this.fromMs
}
