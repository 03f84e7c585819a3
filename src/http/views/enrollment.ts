import type { EnrollmentTokenRecord } from '../../actors/agents/enrollment.ts'
import type { EnrollmentToken } from '../../protocol/wire/nodes/enrollment.ts'
import { isoTime } from '../../time.ts'

function stateOf({ usedAt, expiresAt }: EnrollmentTokenRecord, nowMs: number): EnrollmentToken['state'] {
  if (usedAt !== null) return 'used'
  return expiresAt.getTime() <= nowMs ? 'expired' : 'open'
}

/** `nowMs`: Unix ms. */
export function enrollmentTokenView(row: EnrollmentTokenRecord, nowMs: number): EnrollmentToken {
  return {
    token_id: row.tokenId,
    customer_id: row.customerId,
    name: row.name,
    display_prefix: row.displayPrefix,
    visibility: row.visibility,
    node_class: row.nodeClass,
    privacy_class: row.privacyClass,
    endpoint_url_allowed: row.endpointUrlAllowed,
    state: stateOf(row, nowMs),
    created_at: isoTime(row.createdAt),
    expires_at: isoTime(row.expiresAt),
    used_at: row.usedAt === null ? null : isoTime(row.usedAt),
    node_id: row.usedBy,
  }
}
