import type { CustomerId, KeyId } from '../../ids.ts'
import type { AdminRole } from '../../machines/rules/approval-policy.ts'
import type { EffectivePolicy } from '../../machines/rules/model-policy.ts'

export type AccountStatus = 'active' | 'suspended' | 'closed'
export type Role = AdminRole

/** Who a request acts for, and what it may do. */
export interface Access {
  readonly customerId: CustomerId
  /** null: an operator's role token together with customer headers (§4, combination b). */
  readonly keyId: KeyId | null
  readonly accountStatus: AccountStatus
  readonly expiresAtMs: number | null
  readonly policy: EffectivePolicy
}
