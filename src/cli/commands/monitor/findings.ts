import type { LogEntry } from '../../../protocol/log/log-entry.ts'
import type { Tree } from '../../../protocol/log/merkle-log.ts'
import type { NoteKey } from '../../../protocol/log/note.ts'
import type { LogSource } from './log-source.ts'

/** What a monitor can find, each with what it means. docs/trust.md lists them. */
export type FindingCode =
  | 'checkpoint_invalid'
  | 'log_unnamed'
  | 'quorum_missing'
  | 'split_view'
  | 'log_shrunk'
  | 'log_forked'
  | 'fork_unproven'
  | 'entry_unknown'
  | 'batch_unknown'
  | 'batch_not_logged'
  | 'batch_settled_early'
  | 'leaves_differ'
  | 'payout_without_receipt'
  | 'payee_differs'

export interface Finding {
  readonly code: FindingCode
  /** The log, batch or receipt that it is about. */
  readonly subject: string
  readonly detail: string
}

export type Report = (code: FindingCode, subject: string, detail: string) => void

/** A payout as the public leaves of its batch have it. */
export interface Leaf {
  readonly batchId: string
  /** The receipt's hash; null: of a batch of contract v1. */
  readonly payoutId: string | null
  readonly payee: string
}

/** What a check is given after a round in which the log led on. */
export interface Round {
  readonly source: LogSource
  /** Of the log under its name now. */
  readonly logKeys: readonly NoteKey[]
  /** All entries that were read give this root. */
  readonly tree: Tree
  readonly nowMs: number
  readonly report: Report
  /** Gives a leaf to every check. */
  readonly leaf: (leaf: Leaf) => void
}

/**
 * Something that the monitor looks at while it follows the log. A new check is one file and one line in `checks.ts`. What it must
 * remember is JSON, of a bounded size.
 */
export interface MonitorCheck {
  /** Under which the state file keeps what it remembers. */
  readonly name: string
  /** `isNew`: added while the monitor was following, and not long before. */
  entry?(entry: LogEntry, index: number, at: { readonly nowMs: number; readonly isNew: boolean }): void
  leaf?(leaf: Leaf, report: Report): void
  round?(round: Round): Promise<void>
  /** The entries from this one on were not those of the log: what was heard of them is forgotten. */
  forget?(from: number): void
  state(): unknown
}
