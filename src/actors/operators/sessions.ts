import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/accounts/operators.ts'
import { Problem } from '../../errors.ts'
import { newId, type SessionId } from '../../ids.ts'
import { looksLike, looksLikePrefix } from '../../person-names.ts'
import { dayMs } from '../../time.ts'
import type { Caller, Role } from '../accounts/access.ts'
import { mintToken } from '../accounts/minting.ts'
import { sessionMark } from '../accounts/session-marks.ts'
import type { AuditContext, AuditTrail } from '../audit/audit-context.ts'

/** Without its hashes, as others may see it. */
export interface Session extends Omit<rows.SessionRow, 'tokenHash' | 'sourceHash' | 'signInHash' | 'mark'> {
  readonly state: 'open' | 'idle' | 'expired' | 'ended'
}

/** Only this object ever holds the raw token. */
export interface BegunSession {
  readonly session: Session
  readonly token: string
}

/** Who signs in, and how the gateway knows. */
export interface SignIn extends Pick<Caller, 'name' | 'adminId' | 'sourceHash'> {
  readonly method: 'token' | 'oidc'
  readonly role: Role
  readonly actorHash: string
  /** Of a sign-in at a provider, which makes one session at most. */
  readonly signInHash: Buffer | null
}

export interface SessionsOptions {
  readonly db: Database
  readonly trail: AuditTrail
  /** SVC_TOKEN_PEPPER, newest first. */
  readonly peppers: readonly string[]
  /** Names of tokens of the environment. */
  readonly givenNames: readonly string[]
  /** SVC_SESSION_IDLE_MS, SVC_SESSION_MAX_MS. */
  readonly idleMs: number
  readonly maxMs: number
  /** See `OperatorDirectory.lastSeenMs`. */
  readonly lastSeenMs: (session: Pick<rows.SessionRow, 'sessionId' | 'lastSeenAt'>) => number
  /** See `ChangeFeed.changedHere`. */
  readonly changedHere: (topic: 'operators') => Promise<void>
  readonly now: () => number
}

/** One more ends the session of this actor that was idle for longest. */
const sessionsPerActorMax = 20
export const openSessionsMax = 1_000
/** How long the list shows a session that is over, ms, and how many of them at most. */
const keptMs = 30 * dayMs
export const sessionsOverMax = 10_000

/** Who is signed in to the console. */
export class Sessions {
  constructor(private readonly options: SessionsOptions) {}

  /** Newest first, with those of the last 30 days that are over. */
  async list(limit: number): Promise<readonly Session[]> {
    return (await rows.listSessions(this.options.db, limit)).map((row) => this.shown(row))
  }

  /** null: no such session. */
  async find(sessionId: SessionId): Promise<Session | null> {
    const row = await rows.getSession(this.options.db, sessionId)
    return row === null ? null : this.shown(row)
  }

  /** A role token signs in. Refuses with `invalid_state` for a session, which would outlive its end by another one. */
  async beginWithToken(caller: Caller, { actorHashPrefix }: Pick<AuditContext, 'actorHashPrefix'>) {
    if (caller.sessionId !== null || actorHashPrefix === null) {
      throw new Problem('invalid_state', { detail: 'A session makes no other session. Send a role token to sign in.' })
    }
    return this.begin({ ...caller, method: 'token', actorHash: actorHashPrefix, signInHash: null })
  }

  /** Refuses with `invalid_state` for a sign-in that was used before, `invalid_credentials` for a named token that is revoked and, with too many sessions of everybody, `service_unavailable`. */
  async begin(signIn: SignIn): Promise<BegunSession> {
    const { db, peppers, changedHere, maxMs, now } = this.options
    const { token, hash: tokenHash } = mintToken('session', peppers)
    const createdAt = new Date(now())
    const { actorHash: actorHashPrefix, role, method, adminId, sourceHash, signInHash } = signIn
    const session = await db.transaction(async (tx) => {
      await rows.lockOperators(tx)
      const live = await rows.liveAdmins(tx)
      // Another gateway may have revoked it since this one has read it.
      if (adminId !== null && !live.some((admin) => admin.adminId === adminId)) throw new Problem('invalid_credentials')
      const name = method === 'oidc' && signIn.name !== null ? this.ownName(signIn.name, live) : signIn.name
      await rows.dropOldSessions(tx, { now: createdAt, before: new Date(now() - keptMs), overMax: sessionsOverMax })
      await this.makeRoom(tx, actorHashPrefix, createdAt)
      const facts = {
        sessionId: newId('ses'),
        tokenHash,
        method,
        role,
        name,
        actorHashPrefix,
        adminId,
        sourceHash: sourceHash === null ? null : Buffer.from(sourceHash),
        expiresAt: new Date(now() + maxMs),
      }
      const mark = sessionMark(peppers[0] ?? '', facts)
      const begun = await rows.insertSession(tx, { ...facts, signInHash, createdAt, mark })
      if (begun === null) throw new Problem('invalid_state', { detail: 'This sign-in was used before. Sign in again.' })
      if (name !== null) await rows.nameActor(tx, { actorHashPrefix, name, adminId })
      return begun
    })
    await changedHere('operators')
    return { session: this.shown(session), token }
  }

  /** The session stops working at once, and within 5 s on other gateways. Refuses with `session_not_found`. */
  async revoke(audit: AuditContext, sessionId: string): Promise<Session> {
    const { db, trail, changedHere, now } = this.options
    const session = await db.transaction(async (tx) => {
      const ended = await rows.endSession(tx, sessionId, new Date(now()), 'revoked')
      if (ended === null) throw new Problem('session_not_found')
      await trail.record(tx, audit, { targetId: ended.sessionId })
      return ended
    })
    await changedHere('operators')
    return this.shown(session)
  }

  /** The person signs out. null: there is no session. */
  async signOut(sessionId: SessionId | null): Promise<void> {
    if (sessionId === null) return
    const { db, changedHere, now } = this.options
    await rows.endSession(db, sessionId, new Date(now()), 'signed_out')
    await changedHere('operators')
  }

  /** A provider may call a person whatever she wants: no name of hers looks like that of a token, or like a hash prefix. */
  private ownName(name: string, live: readonly rows.AdminRow[]): string {
    const taken = [...live.map((admin) => admin.name), ...this.options.givenNames]
    const isTaken = looksLikePrefix(name) || taken.some((one) => looksLike(one, name))
    return isTaken ? `${name} (OpenID Connect)` : name
  }

  private async makeRoom(tx: Database, actorHash: string, at: Date): Promise<void> {
    const open = (await rows.openSessions(tx, at)).filter((row) => this.stateOf(row) === 'open')
    const own = open.filter(({ actorHashPrefix }) => actorHashPrefix === actorHash)
    const byUse = own.toSorted((a, b) => this.options.lastSeenMs(a) - this.options.lastSeenMs(b))
    for (const { sessionId } of byUse.slice(0, Math.max(0, own.length + 1 - sessionsPerActorMax))) {
      await rows.endSession(tx, sessionId, at, 'replaced')
    }
    if (open.length < openSessionsMax || own.length >= sessionsPerActorMax) return
    const detail = `${openSessionsMax} sessions are open, which is the most that there may be. End one of them.`
    throw new Problem('service_unavailable', { detail, retryAfterSeconds: 60 })
  }

  private stateOf(row: rows.SessionRow): Session['state'] {
    const nowMs = this.options.now()
    if (row.endedAt !== null) return 'ended'
    if (row.expiresAt.getTime() <= nowMs) return 'expired'
    return this.options.lastSeenMs(row) + this.options.idleMs <= nowMs ? 'idle' : 'open'
  }

  private shown(row: rows.SessionRow): Session {
    const { tokenHash: _, sourceHash: __, signInHash: ___, mark: ____, ...session } = row
    return { ...session, lastSeenAt: new Date(this.options.lastSeenMs(row)), state: this.stateOf(row) }
  }
}
