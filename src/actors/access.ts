import type { CustomerId, KeyId } from '../ids.ts'
import type { EffectivePolicy } from '../machines/rules/model-policy.ts'

export type AccountStatus = 'active' | 'suspended' | 'closed'
export type Role = 'viewer' | 'operator' | 'admin'

/** Who a request acts for, and what it may do. */
export interface Access {
  readonly customerId: CustomerId
  /** null: an operator's role token together with customer headers (decisions §4, combination b). */
  readonly keyId: KeyId | null
  readonly accountStatus: AccountStatus
  readonly expiresAtMs: number | null
  readonly policy: EffectivePolicy
}

/** Looks credentials up. Answers from memory where it can: then it is no promise, and the request path does not wait. */
export interface AccessDirectory {
  /** null: unknown, expired or revoked. Rejects with `Problem('service_unavailable')` when the database is away and the key unknown. */
  gatewayKey(token: string): Access | null | Promise<Access | null>
  /** Customer headers; null for an unknown id and for a wrong token alike. */
  customer(customerId: string, token: string): Access | null | Promise<Access | null>
  /** The role of an admin token; compares against all entries, no early exit. */
  role(token: string): Role | null
}
