import type { Admin as AdminRecord } from '../../actors/operators/admins.ts'
import type { Session as SessionRecord } from '../../actors/operators/sessions.ts'
import type { Admin, Session } from '../../protocol/wire/admin/operators.ts'
import { isoTime } from '../../time.ts'

const timeOrNull = (at: Date | null) => (at === null ? null : isoTime(at))

export function adminView(admin: AdminRecord): Admin {
  return {
    admin_id: admin.adminId,
    name: admin.name,
    role: admin.role,
    display_prefix: admin.displayPrefix,
    created_at: isoTime(admin.createdAt),
    last_used_at: timeOrNull(admin.lastUsedAt),
    revoked_at: timeOrNull(admin.revokedAt),
  }
}

export function sessionView(session: SessionRecord): Session {
  return {
    session_id: session.sessionId,
    name: session.name,
    role: session.role,
    method: session.method,
    actor_hash_prefix: session.actorHashPrefix,
    admin_id: session.adminId,
    state: session.state,
    created_at: isoTime(session.createdAt),
    last_seen_at: isoTime(session.lastSeenAt),
    expires_at: isoTime(session.expiresAt),
    ended_at: timeOrNull(session.endedAt),
    end_reason: session.endReason,
  }
}
