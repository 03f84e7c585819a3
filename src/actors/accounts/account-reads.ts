import type { Database } from '../../db/client.ts'
import type { CustomerRow, KeyRow } from '../../db/queries/accounts/accounts.ts'
import * as rows from '../../db/queries/accounts/accounts.ts'
import { Problem } from '../../errors.ts'

/** A customer without hash and secret, as others may see it. */
export type Customer = Omit<CustomerRow, 'tokenHash' | 'webhookSecretSealed'>
export type GatewayKey = Omit<KeyRow, 'keyHash'>

const keysListedMax = 1_000

/** The reads of customers and keys. They refuse with `customer_not_found` and `key_not_found`. */
export class AccountReads {
  constructor(protected readonly db: Database) {}

  async customer(customerId: string): Promise<Customer> {
    return shownCustomer(await rows.getCustomer(this.db, customerId))
  }

  /** Newest first. `before` is the last id of the page before. */
  async customers(limit: number, before: string | null = null): Promise<readonly Customer[]> {
    return (await rows.listCustomers(this.db, limit, before)).map(shownCustomer)
  }

  async key(keyId: string): Promise<GatewayKey> {
    return shownKey(await rows.getKey(this.db, keyId))
  }

  /** Newest first, including expired and revoked keys, at most 1 000. */
  async keys(customerId: string): Promise<readonly GatewayKey[]> {
    const found = await rows.listKeys(this.db, customerId, keysListedMax)
    if (found.length === 0) await this.customer(customerId)
    return found.map(shownKey)
  }

  /** Of all customers, newest first, including expired and revoked keys. */
  async allKeys(limit: number): Promise<readonly GatewayKey[]> {
    return (await rows.listKeys(this.db, null, limit)).map(shownKey)
  }
}

/** Throws `customer_not_found`. */
export function shownCustomer(row: CustomerRow | null): Customer {
  if (row === null) throw new Problem('customer_not_found')
  const { tokenHash: _, webhookSecretSealed: __, ...shown } = row
  return shown
}

/** Throws `key_not_found`. */
export function shownKey(row: KeyRow | null): GatewayKey {
  if (row === null) throw new Problem('key_not_found')
  const { keyHash: _, ...shown } = row
  return shown
}
