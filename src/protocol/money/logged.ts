import { brand } from '../../brand.ts'
import { kindNames, kindOf, type LedgerKind, type LoggedKind, type LoggedName, ledgerKinds } from './kinds.ts'

/** An entry of the ledger that has one of its own in the public log (§31). */
export interface LoggedEntry {
  readonly kind: LoggedKind
  readonly entryId: string
  readonly customerId: string
  readonly amountWei: string
  readonly reason: string | null
  readonly receiptHash: string | null
  readonly createdAt: Date
}

const isLogged = (kind: LedgerKind): kind is LoggedKind => kindOf(kind).log !== null
export const loggedKinds: readonly LoggedKind[] = kindNames.filter(isLogged)
export const loggedName = (kind: LoggedKind): LoggedName => ledgerKinds[kind].log.entry
export const mayLack = (kind: LoggedKind): boolean => ledgerKinds[kind].log.mayLack

/** What the log's entry is the hash of, as the customer knows it. */
export function loggedFacts(entry: LoggedEntry): object {
  const { entry: name, says } = ledgerKinds[entry.kind].log
  const known = { reason: entry.reason, receipt_hash: entry.receiptHash }
  return {
    v: `${brand}-${name.replaceAll('_', '-')}-v1`,
    [`${name}_id`]: entry.entryId,
    customer_id: entry.customerId,
    ...Object.fromEntries(says.map((fact) => [fact, known[fact]])),
    amount_wei: entry.amountWei,
    created_at: entry.createdAt.toISOString(),
  }
}
