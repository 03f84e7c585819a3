import type { CustomerId, KeyId } from '../../ids.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import type { EffectivePolicy } from '../../machines/rules/model-policy.ts'

export type AccountStatus = 'active' | 'suspended' | 'closed'
export type Role = AdminRole

/** The account for which a request acts, and what the request may do. */
export interface Access {
  readonly customerId: CustomerId
  /** null if an operator's role token came together with customer headers (§4, combination b). */
  readonly keyId: KeyId | null
  readonly accountStatus: AccountStatus
  readonly expiresAtMs: number | null
  readonly policy: EffectivePolicy
}
