import type { Config } from '../config.ts'
import type { ProblemCode } from '../errors.ts'
import type { TokenUsage } from '../protocol/chunk-rewriter.ts'
import type { Attempt } from './attempt.ts'
import type { Ticker } from './ticker.ts'

/** How a stream ended, told once. */
export interface RelayEnd {
  readonly kind: 'complete' | 'failed' | 'client_gone'
  readonly code: ProblemCode | null
  readonly attempt: Attempt | null
  /** As the node reported it; null where it did not. */
  readonly usage: TokenUsage | null
  /** Weight of the text that passed, unrounded. */
  readonly outputWeight: number
  readonly firstContentMs: number | null
}

export interface RelayPort {
  readonly config: Config
  readonly ticker: Ticker
  /** Usage and metadata of the terminal chunk; the receipt is made here. */
  readonly settle: (end: RelayEnd) => {
    readonly usage: TokenUsage
    readonly metadata: object
    /** The terminal chunk waits for it; null where nobody pays. */
    readonly durable: Promise<void> | null
  }
  /** A line of the node that is no JSON was passed over. */
  readonly skipped: () => void
}
