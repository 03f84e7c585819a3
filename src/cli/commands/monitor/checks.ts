import type { Fields } from '../../../protocol/verify/given.ts'
import { batchCheck } from './batch-check.ts'
import type { MonitorCheck } from './findings.ts'
import { payeeCheck } from './payee-check.ts'

/** What the checks are given by the command line. */
export interface GivenToChecks {
  /** Receipt hash → payee. */
  readonly payees: ReadonlyMap<string, string>
  /** How long a batch is announced before it is settled, ms. */
  readonly announceMs: number
}

/** `kept`: what they remembered, by their names. */
export const openChecks = (kept: Fields, { payees, announceMs }: GivenToChecks): readonly MonitorCheck[] => [
  batchCheck(kept.batches, announceMs),
  payeeCheck(payees),
]
