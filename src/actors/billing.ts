import type { Database } from '../db/client.ts'
import { lockCustomer } from '../db/queries/accounts.ts'
import { insertCredit, type LedgerEntry, ledgerEntry } from '../db/queries/ledger.ts'
import { Problem } from '../errors.ts'
import { newId } from '../ids.ts'
import { isRowFault } from './group-commit.ts'

export interface CreditInput {
  /** The operator's own; the same one credits once. */
  readonly creditId?: string
  readonly amountWei: bigint
  readonly reason: string | null
}

export interface CreditResult {
  readonly entry: LedgerEntry
  /** It was credited before: nothing was written. */
  readonly replayed: boolean
}

/** Money that an operator puts on an account. */
export interface Billing {
  /** Refuses with `customer_not_found`, `credit_id_conflict`, and `invalid_request` where the balance would not be a uint256. */
  credit(customerId: string, input: CreditInput): Promise<CreditResult>
}

const controls = /[\u0000-\u001f\u007f-\u009f]/g

export function createBilling({ db }: { readonly db: Database }): Billing {
  const credit = (customerId: string, { creditId = newId('led'), amountWei, reason }: CreditInput) =>
    db.transaction(async (tx): Promise<CreditResult> => {
      // Held until the end: of two with the same id the second sees what the first wrote.
      if (!(await lockCustomer(tx, customerId))) throw new Problem('customer_not_found')
      const known = await ledgerEntry(tx, creditId)
      if (known === null) {
        const kept = reason === null ? null : reason.replaceAll(controls, '')
        return { entry: await insertCredit(tx, { creditId, customerId, amountWei, reason: kept }), replayed: false }
      }
      const same = known.kind === 'admin_credit' && known.customerId === customerId && known.amountWei === amountWei
      if (!same) throw new Problem('credit_id_conflict', { param: 'credit_id' })
      return { entry: known, replayed: true }
    })
  return {
    credit: async (customerId, input) => {
      try {
        return await credit(customerId, input)
      } catch (error) {
        if (!isRowFault(error)) throw error
        // The same id on another customer at the same moment; or more than any balance can be.
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
