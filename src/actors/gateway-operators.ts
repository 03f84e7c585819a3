import type { Config } from '../settings/config.ts'
import { tokenNames } from '../settings/token-names.ts'
import type { AccessDirectory } from './accounts/access-directory.ts'
import type { Sealing } from './accounts/sealing.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { ChangeFeed } from './durable/change-feed.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { Admins } from './operators/admins.ts'
import { Oidc, type OidcOptions } from './operators/oidc.ts'
import { sourceOf } from './operators/oidc-person.ts'
import { Sessions } from './operators/sessions.ts'

interface Kept {
  readonly access: AccessDirectory
  readonly audit: AuditLog
  readonly sealing: Sealing
  readonly changedHere: ChangeFeed['changedHere']
}

/** Named role tokens, and who is signed in to the console. */
export function createOperators(parts: GatewayParts, { access, audit, sealing, changedHere }: Kept) {
  const { config, log, database, peppers } = parts
  const now = parts.world?.now ?? Date.now
  const givenNames = [...tokenNames(config.SVC_TOKEN_NAMES).values()]
  const shared = { db: database.db, log, trail: audit, peppers, givenNames, changedHere, now }
  return {
    oidc: oidcOf(config, { sealing, log, now }),
    admins: new Admins({ ...shared, actorPrefix: (token) => audit.actorPrefix(token) }),
    sessions: new Sessions({
      ...shared,
      idleMs: config.SVC_SESSION_IDLE_MS,
      maxMs: config.SVC_SESSION_MAX_MS,
      lastSeenMs: (session) => access.callers.lastSeenMs(session),
    }),
  }
}

/** By which settings people who sign in at a provider have their roles: see `sourceOf`. */
export function oidcSources(config: Config): readonly Buffer[] {
  const { SVC_OIDC_ISSUER: issuer, SVC_OIDC_CLIENT_ID: clientId, SVC_OIDC_GROUPS_CLAIM: groupsClaim } = config
  if (issuer === null || clientId === null) return []
  return config.SVC_OIDC_ROLES.map((entry) => sourceOf({ issuer, clientId, groupsClaim }, entry))
}

/** null: no provider is named. */
function oidcOf(config: Config, tools: Pick<OidcOptions, 'sealing' | 'log' | 'now'>): Oidc | null {
  const { SVC_OIDC_ISSUER: issuer, SVC_OIDC_CLIENT_ID: clientId } = config
  if (issuer === null || clientId === null) return null
  return new Oidc({
    ...tools,
    issuer,
    clientId,
    clientSecret: config.SVC_OIDC_CLIENT_SECRET,
    scopes: config.SVC_OIDC_SCOPES,
    groupsClaim: config.SVC_OIDC_GROUPS_CLAIM,
    nameClaim: config.SVC_OIDC_NAME_CLAIM,
    roles: config.SVC_OIDC_ROLES,
  })
}
