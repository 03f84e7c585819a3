import { isoTime, secondMs } from '../../time.ts'
import { freshSeconds } from '../signing/signatures.ts'
import type { Receipt } from './receipt.ts'

/** When the gateway saw the work, by its own clock, Unix ms. */
export interface SeenSpan {
  /** The node was not asked before. */
  readonly fromMs: number
  /** The work had not ended before. */
  readonly endFromMs: number
  /** The answer was here. */
  readonly toMs: number
}

/**
 * Unix ms; NaN where the text is no time. `Date.parse` takes 30 February for 2 March, and 24:00 for the next day: the database would keep
 * another text than the one that was hashed.
 */
function timeOf(text: string): number {
  const ms = Date.parse(text)
  return !Number.isNaN(ms) && isoTime(ms) === text ? ms : Number.NaN
}

/**
 * Whether a node can have written these times into its receipt: they exist, follow each other, and lie within what the gateway saw. The node's
 * clock may differ as much as its signatures allow.
 */
export function areTimesOfWork(
  { startedAt, completedAt, issuedAt }: Pick<Receipt, 'startedAt' | 'completedAt' | 'issuedAt'>,
  { fromMs, endFromMs, toMs }: SeenSpan,
): boolean {
  const [startedMs, completedMs] = [timeOf(startedAt), timeOf(completedAt)]
  // Of a version before v3 there is none.
  const issuedMs = issuedAt == null ? completedMs : timeOf(issuedAt)
  const offMs = freshSeconds * secondMs
  // NaN passes no comparison.
  return (
    fromMs - offMs <= startedMs &&
    endFromMs - offMs <= completedMs &&
    startedMs <= completedMs &&
    completedMs <= issuedMs &&
    issuedMs <= toMs + offMs
  )
}
