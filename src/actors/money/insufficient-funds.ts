import { inEther } from '../../amounts.ts'
import type { Database } from '../../db/client.ts'
import { availableWei, getCustomer } from '../../db/queries/accounts/accounts.ts'
import { Problem } from '../../errors.ts'

/** The same for a quote that is asked for in parts; null: the account covers it, or what it has is not known. */
export async function uncovered(db: Database, customerId: string, quoteWei: bigint): Promise<Problem | null> {
  const customer = await getCustomer(db, customerId).catch(() => null)
  if (customer === null || availableWei(customer) >= quoteWei) return null
  return insufficientFunds(db, customerId, quoteWei)
}

/**
 * What a caller hears whose account does not cover the quote. What is available is read after the refusal: where it
 * covers the quote by then, the sentence leaves it out.
 */
export async function insufficientFunds(db: Database, customerId: string, quoteWei: bigint): Promise<Problem> {
  const customer = await getCustomer(db, customerId).catch(() => null)
  const available = customer === null ? null : availableWei(customer)
  const has =
    available === null || available >= quoteWei ? 'the account has less' : `the account has ${inEther(available)}`
  return new Problem('insufficient_funds', {
    detail: `This request is quoted at ${inEther(quoteWei)}; ${has} available.`,
  })
}
