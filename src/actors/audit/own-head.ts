import type { Database } from '../../db/client.ts'
import { type ChainHead, type TransactionId, wasRestarted, wasRolledBack } from '../../db/queries/audit/audit-chains.ts'
import { equalBytes } from '../../secrets.ts'
import { headProof } from './audit-chain.ts'

/**
 * The head of this process's own chain, kept in memory: who deletes the newest rows of the audit cannot delete this. Each
 * action first compares the row with it (§16).
 */
export class OwnHead {
  /** The head as a later transaction has read it. null if this process has not yet seen a head that it wrote. */
  private seen: ChainHead | null = null
  /** Heads that were written after it, by a transaction that may have been rolled back. */
  private written: { readonly head: ChainHead; readonly by: TransactionId; readonly unanswered: boolean } | null = null

  constructor(private readonly key: string) {}

  /** The last position that this process knows, for the log. */
  get place(): { readonly seq: number; readonly mac: string } {
    const head = this.written?.head ?? this.seen
    return { seq: head?.seq ?? 0, mac: head?.mac.toString('hex') ?? '' }
  }

  /**
   * Whether `row`, the head as the database has it now, is the one that was written last. The caller holds the row's lock,
   * or the one that a first head needs, so that every earlier transaction of this process has ended.
   */
  async isStill(tx: Database, row: ChainHead | null): Promise<boolean> {
    const { written } = this
    if (written !== null && !this.same(row, written.head)) {
      const { by, unanswered } = written
      if (!(await wasRolledBack(tx, by)) && !(unanswered && (await wasRestarted(tx, by)))) return false
      this.written = null
    }
    const expected = this.written?.head ?? this.seen
    if (!this.same(row, expected)) return false
    this.seen = expected
    return true
  }

  /** Remembers that `head` was written by a transaction that is about to end. */
  wrote(head: ChainHead, by: TransactionId): void {
    this.written = { head, by, unanswered: false }
  }

  /**
   * Whether this transaction was committed is unknown: its connection broke. Where PostgreSQL was started anew meanwhile, a crash may have
   * lost it, and has then given its number to another.
   */
  unanswered(by: TransactionId): void {
    if (this.written?.by === by) this.written = { ...this.written, unanswered: true }
  }

  /**
   * Compares a MAC that is computed anew over every column, so that a changed column cannot hide behind the old MAC.
   */
  private same(row: ChainHead | null, head: ChainHead | null): boolean {
    if (row === null || head === null) return row === head
    return equalBytes(headProof(this.key, row), head.proof)
  }
}
