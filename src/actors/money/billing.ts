import { inEther } from '../../amounts.ts'
import type { Database } from '../../db/client.ts'
import { availableWei, lockCustomer } from '../../db/queries/accounts/accounts.ts'
import { insertOperatorEntry, type LedgerEntry, ledgerEntry, lockLedger } from '../../db/queries/money/ledger.ts'
import { Problem } from '../../errors.ts'
import { newId } from '../../ids.ts'
import type { OperatorKind } from '../../protocol/money/kinds.ts'
import { balanceAccounts, changeOf } from '../../protocol/money/moves.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { isRowFault } from '../durable/group-commit.ts'

export interface BalanceChange {
  /** The operator's own id. Using the same id again changes nothing. */
  readonly id?: string
  readonly amountWei: bigint
}

export interface BalanceChanged {
  readonly entry: LedgerEntry
  /** True if the entry already existed and nothing was written. */
  readonly replayed: boolean
}

type Change = (customerId: string, change: BalanceChange, audit: AuditContext) => Promise<BalanceChanged>

/** What operators do to customers' balances, with the event of the audit; a replay writes none. Refuses with `customer_not_found`. */
export interface Billing {
  /** Refuses with `credit_id_conflict`, and `invalid_request` where the balance would not be a uint256. */
  readonly credit: Change
  /** Takes credit back. Refuses with `debit_id_conflict`, and `invalid_state` where less is available. */
  readonly debit: Change
}

/** `idField` names the chosen id to its caller. */
interface Verb {
  readonly kind: OperatorKind
  readonly idField: 'credit_id' | 'debit_id'
}

export interface BillingOptions {
  readonly db: Database
  readonly trail: AuditTrail
  /** Has gateways give back what they have leased of a customer's money. */
  readonly recall: (customerId: string) => Promise<void>
}

export function createBilling({ db, trail, recall }: BillingOptions): Billing {
  const taken = ({ idField }: Verb) => new Problem(`${idField}_conflict`, { param: idField })
  const write = (
    verb: Verb,
    customerId: string,
    { id = newId('led'), amountWei }: BalanceChange,
    audit: AuditContext,
  ) =>
    db.transaction(async (tx): Promise<BalanceChanged> => {
      await lockLedger(tx)
      // The lock is held until the end, so that of two requests with one id the second sees what the first wrote, and
      // nothing is reserved or charged between the look at the balance and its change.
      const customer = await lockCustomer(tx, customerId)
      if (customer === null) throw new Problem('customer_not_found')
      const { kind } = verb
      const known = await ledgerEntry(tx, id)
      if (known !== null) {
        const same = known.kind === kind && known.customerId === customerId && known.amountWei === amountWei
        if (!same) throw taken(verb)
        return { entry: known, replayed: true }
      }
      const available = availableWei(customer)
      if (changeOf(kind, balanceAccounts) < 0 && amountWei > available) throw notAvailable(amountWei, available)
      const entry = await insertOperatorEntry(tx, { kind, entryId: id, customerId, amountWei, reason: audit.reason })
      await trail.record(tx, audit, { targetId: customerId, metadata: { amount_wei: amountWei.toString() } })
      return { entry, replayed: false }
    })
  const changes =
    (verb: Verb): Change =>
    async (customerId, change, audit) => {
      if (changeOf(verb.kind, balanceAccounts) < 0) await recall(customerId)
      try {
        return await write(verb, customerId, change, audit)
      } catch (error) {
        if (!isRowFault(error)) throw error
        // Either another customer got an entry with this id at the same moment, or the sum exceeds the largest balance.
        if (change.id !== undefined && (await ledgerEntry(db, change.id)) !== null) throw taken(verb)
        throw new Problem('invalid_request', {
          param: 'amount_wei',
          detail: 'amount_wei: the balance would be more than 2^256 - 1',
        })
      }
    }
  return {
    credit: changes({ kind: 'admin_credit', idField: 'credit_id' }),
    debit: changes({ kind: 'admin_debit', idField: 'debit_id' }),
  }
}

const notAvailable = (amountWei: bigint, available: bigint) =>
  new Problem('invalid_state', {
    param: 'amount_wei',
    detail: `amount_wei is ${inEther(amountWei)}; the account has ${inEther(available)} available. What is reserved for requests that run cannot be taken back.`,
  })
