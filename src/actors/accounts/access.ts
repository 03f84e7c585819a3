import type { AdminId, CustomerId, KeyId, SessionId } from '../../ids.ts'
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

/** The caller of the administration: a role token, or a session that was made with one or at a provider. */
export interface Caller {
  readonly role: Role
  /** null: a token of the environment or of the first start, which bears none. */
  readonly name: string | null
  /** The named token that it is, or that its session was made with. */
  readonly adminId: AdminId | null
  /** null: the token itself calls. */
  readonly sessionId: SessionId | null
  /** A token without a name, by a keyed hash. */
  readonly sourceHash: Uint8Array | null
  /** The hash prefix under which the audit knows a session's actor; null: that of the token. */
  readonly actorHash: string | null
}
