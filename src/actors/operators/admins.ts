import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/accounts/operators.ts'
import { Problem } from '../../errors.ts'
import { type AdminId, newId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { looksLike, looksLikePrefix } from '../../person-names.ts'
import { displayPrefix } from '../../secrets.ts'
import type { Caller, Role } from '../accounts/access.ts'
import { mintToken } from '../accounts/minting.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'

/** A named role token without its hash, as others may see it. */
export type Admin = Omit<rows.AdminRow, 'tokenHash'>

/** Only this object ever holds the raw token. */
export interface CreatedAdmin {
  readonly admin: Admin
  readonly token: string
}

export interface AdminsOptions {
  readonly db: Database
  readonly log: Log
  readonly trail: AuditTrail
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  /** The hash prefix by which audit events know a token. */
  readonly actorPrefix: (token: string) => string
  /** Names of tokens of the environment. */
  readonly givenNames: readonly string[]
  /** See `ChangeFeed.changedHere`. */
  readonly changedHere: (topic: 'operators') => Promise<void>
  readonly now: () => number
}

const liveAdminsMax = 200
/** Of one name, the newest. */
const prefixesMax = 1_000

/** Named role tokens, and whose hash prefixes audit events hold. */
export class Admins {
  /** Prefixes whose name the list holds for certain, by the token's id or, without one, its name. At most one for each live token. */
  private readonly named = new Map<AdminId | string, string>()

  constructor(private readonly options: AdminsOptions) {}

  /** Newest first, with the revoked ones. */
  async list(limit: number): Promise<readonly Admin[]> {
    return (await rows.listAdmins(this.options.db, limit)).map(shown)
  }

  /** Refuses with `admin_name_taken` and `admin_limit_reached`. */
  async create(audit: AuditContext, { name, role }: { readonly name: string; readonly role: Role }) {
    const { db, trail, peppers, actorPrefix, givenNames, changedHere, now } = this.options
    const { token, hash: tokenHash } = mintToken(role, peppers)
    const adminId = newId('adm')
    const admin = await db.transaction(async (tx) => {
      await rows.lockOperators(tx)
      const live = await rows.liveAdmins(tx)
      const taken = [...live.map((admin) => admin.name), ...givenNames].find((one) => looksLike(one, name))
      if (taken !== undefined) {
        const detail = `Another token bears the name ${taken}, which looks like it. Choose another name, or revoke that token first.`
        throw new Problem('admin_name_taken', { param: 'name', detail })
      }
      if (live.length >= liveAdminsMax) {
        const detail = `There may be ${liveAdminsMax} named tokens. Revoke one that nobody uses.`
        throw new Problem('admin_limit_reached', { detail })
      }
      const createdAt = new Date(now())
      const row = { adminId, name, role, tokenHash, displayPrefix: displayPrefix(token), createdAt }
      const made = await rows.insertAdmin(tx, row)
      await rows.nameActor(tx, { actorHashPrefix: actorPrefix(token), name, adminId })
      await trail.record(tx, audit, { targetId: adminId })
      return shown(made)
    })
    await changedHere('operators')
    return { admin, token } satisfies CreatedAdmin
  }

  /**
   * The token and its sessions stop working at once, and within 5 s on other gateways. Its name stays in the audit.
   * Refuses with `admin_not_found`. Revoking a revoked token changes nothing.
   */
  async revoke(audit: AuditContext, adminId: string): Promise<Admin> {
    const { db, trail, changedHere, now } = this.options
    const at = new Date(now())
    const admin = await db.transaction(async (tx) => {
      // A sign-in with this token, or in doubt about it, is before or after.
      await rows.lockOperators(tx)
      const revoked = await rows.revokeAdmin(tx, adminId, at)
      if (revoked === null) throw new Problem('admin_not_found')
      await rows.endSessionsOfAdmin(tx, revoked.adminId, at)
      await trail.record(tx, audit, { targetId: revoked.adminId })
      return shown(revoked)
    })
    await changedHere('operators')
    return admin
  }

  /**
   * A named token calls under this prefix. It is another one after a rotation of SVC_AUDIT_KEY, and then the list of
   * names learns it. It never waits.
   */
  calls({ adminId, name, sessionId }: Caller, actorHashPrefix: string): void {
    if (name === null || sessionId !== null) return
    const key = adminId ?? name
    if (this.named.get(key) === actorHashPrefix) return
    if (this.named.size >= liveAdminsMax) this.named.clear()
    this.named.set(key, actorHashPrefix)
    rows.nameActor(this.options.db, { actorHashPrefix, name, adminId }).catch((error: unknown) => {
      this.named.delete(key)
      this.options.log.warn('actor_not_named', { failure: failureName(error) })
    })
  }

  /** The hash prefixes of the people with this name, and the text itself where it is a prefix. */
  async prefixesOf(person: string): Promise<readonly string[]> {
    const named = await rows.prefixesOfName(this.options.db, person, prefixesMax)
    return looksLikePrefix(person) ? [person, ...named] : named
  }

  /** By the hash prefix; one without a name is not there. */
  async names(prefixes: readonly (string | null)[]): Promise<ReadonlyMap<string, rows.ActorName>> {
    const wanted = [...new Set(prefixes.filter((prefix) => prefix !== null))]
    const found = await rows.readActorNames(this.options.db, wanted)
    return new Map(found.map((row) => [row.actorHashPrefix, row]))
  }
}

function shown({ tokenHash: _, ...admin }: rows.AdminRow): Admin {
  return admin
}
