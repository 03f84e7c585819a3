import type { Visibility } from './routing.ts'

/** The most that an enrolment token allows (§22). */
export interface EnrollmentGrant {
  readonly visibility: Visibility
  readonly nodeClass: string
  readonly endpointUrlAllowed: boolean
}

export interface EnrollmentWish {
  readonly visibility?: Visibility | undefined
  readonly nodeClass?: string | undefined
  readonly endpointUrl?: string | undefined
}

export type ExcessiveWish = 'visibility' | 'node_class' | 'endpoint_url'

const visibilityRank: Readonly<Record<Visibility, number>> = { private: 0, public: 1 }

/**
 * The first wish of the node that exceeds its token; null if none does. Node classes have no order, so any class but
 * the token's own is excessive.
 */
export function excessOf(wish: EnrollmentWish, grant: EnrollmentGrant): ExcessiveWish | null {
  if (visibilityRank[wish.visibility ?? 'private'] > visibilityRank[grant.visibility]) return 'visibility'
  if (wish.nodeClass !== undefined && wish.nodeClass !== grant.nodeClass) return 'node_class'
  return wish.endpointUrl !== undefined && !grant.endpointUrlAllowed ? 'endpoint_url' : null
}
