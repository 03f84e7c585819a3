import type { Database } from '../../db/client.ts'
import { lockCustomer } from '../../db/queries/accounts/accounts.ts'
import { insertOperatorEntry, type LedgerEntry, ledgerEntry } from '../../db/queries/money/ledger.ts'
import { Problem } from '../../errors.ts'
import { newId } from '../../ids.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { isRowFault } from '../durable/group-commit.ts'

export interface CreditInput {
  /** The operator's own id. Using the same id again does not credit twice. */
  readonly creditId?: string
  readonly amountWei: bigint
}

export interface CreditResult {
  readonly entry: LedgerEntry
  /** True if the credit already existed and nothing was written. */
  readonly replayed: boolean
}

/** Credits customers' accounts. */
export interface Billing {
  /**
   * With the event of the audit; a replay writes none. Refuses with `customer_not_found`, `credit_id_conflict`, and
   * `invalid_request` where the balance would not be a uint256.
   */
  credit(customerId: string, input: CreditInput, audit: AuditContext): Promise<CreditResult>
}

export function createBilling({ db, trail }: { readonly db: Database; readonly trail: AuditTrail }): Billing {
  const credit = (customerId: string, { creditId = newId('led'), amountWei }: CreditInput, audit: AuditContext) =>
    db.transaction(async (tx): Promise<CreditResult> => {
      // The lock is held until the end, so that of two requests with one id the second sees what the first wrote.
      if (!(await lockCustomer(tx, customerId))) throw new Problem('customer_not_found')
      const known = await ledgerEntry(tx, creditId)
      if (known === null) {
        const made = { kind: 'admin_credit', entryId: creditId, customerId, amountWei, reason: audit.reason } as const
        const entry = await insertOperatorEntry(tx, made)
        await trail.record(tx, audit, { targetId: customerId, metadata: { amount_wei: amountWei.toString() } })
        return { entry, replayed: false }
      }
      const same = known.kind === 'admin_credit' && known.customerId === customerId && known.amountWei === amountWei
      if (!same) throw new Problem('credit_id_conflict', { param: 'credit_id' })
      return { entry: known, replayed: true }
    })
  return {
    credit: async (customerId, input, audit) => {
      try {
        return await credit(customerId, input, audit)
      } catch (error) {
        if (!isRowFault(error)) throw error
        // Either another customer got a credit with this id at the same moment, or the sum exceeds the largest
        // balance.
        const taken = input.creditId !== undefined && (await ledgerEntry(db, input.creditId)) !== null
        if (taken) throw new Problem('credit_id_conflict', { param: 'credit_id' })
        throw new Problem('invalid_request', {
          param: 'amount_wei',
          detail: 'amount_wei: the balance would be more than 2^256 - 1',
        })
      }
    },
  }
}
