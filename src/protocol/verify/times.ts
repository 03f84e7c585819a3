import { timedReceiptVersion } from '../../brand.ts'
import { minuteMs } from '../../time.ts'
import { isWellFormed } from '../json/well-formed.ts'
import { receiptVersions } from '../receipts/receipt.ts'
import { type Fields, textOf } from './given.ts'
import { type Check, check } from './trust.ts'

/** A receipt is in the log seconds after its answer. The verifier reports one that came later than this, ms. */
const lateMsMax = 10 * minuteMs

const day = '[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])'
const instant = new RegExp(`^${day}T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]\\.[0-9]{3}Z$`)
const isInstant = (value: unknown) => typeof value === 'string' && instant.test(value)

/** Whether these are facts of a version that is known here: a v3 says when it was issued. */
export const areKnownFacts = (facts: Fields): boolean =>
  receiptVersions.has(facts.v) && isWellFormed(facts) && (facts.v !== timedReceiptVersion || isInstant(facts.issued_at))

const minutes = (ms: number) => `${Math.round(ms / minuteMs)} minutes`

/**
 * When a receipt was issued, as its issuer says, and since when the log holds it, as the gateway says. It never makes the receipt
 * invalid: a database that was away, and a clock that is wrong, have the same look as a receipt that was kept back.
 */
export function timesCheck({ issued_at: issuedAt }: Fields, { logged_at: loggedAt }: Fields): Check {
  const name = 'times'
  const issued = isInstant(issuedAt) ? `issued at ${issuedAt}` : 'its version does not say when it was issued'
  if (!isInstant(loggedAt)) return check(name, null, `${issued}; the file does not say since when the log holds it`)
  const both = `${issued}; in the log since ${loggedAt}, as the gateway says`
  // NaN passes no comparison.
  const lateMs = Date.parse(textOf(loggedAt) ?? '') - Date.parse(isInstant(issuedAt) ? String(issuedAt) : '')
  if (lateMs > lateMsMax) return { ...check(name, null, `${both}: ${minutes(lateMs)} LATER`), warns: true }
  if (lateMs < -lateMsMax)
    return { ...check(name, null, `${both}: ${minutes(-lateMs)} BEFORE it was issued`), warns: true }
  return check(name, null, both)
}
