import type { AccessDirectory } from './accounts/access-directory.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { ChangeFeed } from './durable/change-feed.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { Admins } from './operators/admins.ts'
import { Sessions } from './operators/sessions.ts'

interface Kept {
  readonly access: AccessDirectory
  readonly audit: AuditLog
  readonly changedHere: ChangeFeed['changedHere']
}

/** Named role tokens, and who is signed in to the console. */
export function createOperators(parts: GatewayParts, { access, audit, changedHere }: Kept) {
  const { config, log, database, peppers } = parts
  const now = parts.world?.now ?? Date.now
  const shared = { db: database.db, log, trail: audit, peppers, changedHere, now }
  return {
    admins: new Admins({ ...shared, actorPrefix: (token) => audit.actorPrefix(token) }),
    sessions: new Sessions({
      ...shared,
      idleMs: config.SVC_SESSION_IDLE_MS,
      maxMs: config.SVC_SESSION_MAX_MS,
      lastSeenMs: (session) => access.callers.lastSeenMs(session),
    }),
  }
}
