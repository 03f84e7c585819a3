import type { Check } from '../../protocol/verify/trust.ts'
import type { AmdRoot } from './amd-roots.ts'

/** Whose word counts. Absent: the pinned keys of Intel and AMD. A test names its own. */
export interface Roots {
  /** A certificate, DER. */
  readonly intel?: Uint8Array
  readonly amd?: readonly AmdRoot[]
}

/** What one kind of machine shows. */
export interface Judged {
  readonly checks: readonly Check[]
  /** What was signed with it, 64 bytes; null: it cannot be read. */
  readonly reportData: Uint8Array | null
}
