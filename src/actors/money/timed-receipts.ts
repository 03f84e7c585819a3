import type { Database } from '../../db/client.ts'
import { receiptsIssuedFrom } from '../../db/queries/money/receipts.ts'

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
    this.fromMs = (await receiptsIssuedFrom(this.db)).getTime()
  }

  readonly issued = (): boolean => this.now() >= this.fromMs
}
