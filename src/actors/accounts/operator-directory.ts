import type { Database } from '../../db/client.ts'
import {
  type AdminRow,
  liveAdmins,
  openSessions,
  type SessionRow,
  saveAdminUses,
  saveSessionUses,
} from '../../db/queries/accounts/operators.ts'
import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import type { AdminId, SessionId } from '../../ids.ts'
import { equalBytes, hashToken, isWellFormedToken } from '../../secrets.ts'
import { minuteMs, secondMs } from '../../time.ts'
import type { ChangeFeed } from '../durable/change-feed.ts'
import type { Caller, Role } from './access.ts'
import { Freshness, type ReadMark } from './freshness.ts'
import { bearsMark } from './session-marks.ts'

export interface OperatorDirectoryOptions {
  readonly db: Database
  readonly feed: ChangeFeed
  /** Newest first. */
  readonly peppers: readonly string[]
  /** SVC_SESSION_IDLE_MS. */
  readonly idleMs: number
  /** SVC_KEY_OUTAGE_MS. */
  readonly outageMs: number
  /** By which settings people who signed in at a provider have their roles (`sourceOf`). */
  readonly oidcSources: readonly Uint8Array[]
  /** See `RoleTokens.roleOfSource`. */
  readonly roleOfSource: (sourceHash: Uint8Array) => Role | 'unknown' | null
  readonly now: () => number
  readonly failed: (error: unknown) => void
}

const readWaitMs = 2 * secondMs
const saveWaitMs = 5 * secondMs
const namedKinds = ['admin', 'operator', 'viewer'] as const

/** The named role tokens and the sessions of the console, as far as they are valid. There are few, so memory holds all. */
export class OperatorDirectory {
  private readonly freshness: Freshness
  private admins: ReadonlyMap<string, AdminRow> = new Map()
  private adminsById: ReadonlyMap<AdminId, AdminRow> = new Map()
  private sessions: ReadonlyMap<string, SessionRow> = new Map()
  private sessionsById: ReadonlyMap<SessionId, SessionRow> = new Map()
  private mark: ReadMark | null = null
  private reading: Promise<void> | null = null
  /** When this process last saw a session, Unix ms. Another process may have seen it later: then its row says so. */
  private readonly seen = new Map<SessionId, number>()
  private sessionUses = new Map<SessionId, number>()
  private adminUses = new Map<AdminId, number>()

  constructor(private readonly options: OperatorDirectoryOptions) {
    const { feed, now } = options
    this.freshness = new Freshness(feed, ['operators'], now)
    feed.subscribe('operators', () => this.read())
  }

  start(): Promise<void> {
    return this.read()
  }

  /** What memory knows of a token. It never waits. null: nothing. */
  known(token: string): Caller | null {
    if (this.doubtMs() > this.options.outageMs) return null
    for (const pepper of this.options.peppers) {
      const key = hashToken(pepper, token).toString('latin1')
      const admin = this.admins.get(key)
      // The token itself says of which role it is: another one stands there only by a change in the database.
      if (admin !== undefined) return isWellFormedToken(token, admin.role) ? callerOfAdmin(admin) : null
      const session = this.sessions.get(key)
      if (session !== undefined) return this.callerOfSession(session)
    }
    return null
  }

  /** Also asks the database. Rejects with `service_unavailable` where only the database could tell. */
  async find(token: string): Promise<Caller | null> {
    const known = this.known(token)
    if (known !== null) return known
    if (![...namedKinds, 'session' as const].some((kind) => isWellFormedToken(token, kind))) return null
    const askedMs = this.options.now()
    // A moment ago another process may have made the token, or seen the session.
    await this.read()
    const found = this.known(token)
    if (found !== null) return found
    if (this.mark === null || this.mark.readAtMs < askedMs) {
      throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
    }
    return null
  }

  /** Notes that a caller is there. `attended`: a person asked, so that the session is not idle. */
  use({ adminId, sessionId }: Caller, attended: boolean): void {
    const nowMs = this.options.now()
    if (sessionId !== null && attended) {
      this.seen.set(sessionId, nowMs)
      this.sessionUses.set(sessionId, nowMs)
    }
    if (adminId !== null) this.adminUses.set(adminId, Math.floor(nowMs / minuteMs) * minuteMs)
  }

  /** True once a caller has certainly lost every right: its stream ends. Always false while the database is away. */
  isGone({ adminId, sessionId, sourceHash }: Caller): boolean {
    const { mark } = this
    if (mark === null || this.doubtMs() > this.options.outageMs) return false
    if (sessionId === null) {
      if (adminId !== null) return !this.adminsById.has(adminId)
      return sourceHash !== null && this.options.roleOfSource(sourceHash) === null
    }
    const session = this.sessionsById.get(sessionId)
    if (session === undefined || session.expiresAt.getTime() <= this.options.now()) return true
    const idleAtMs = this.lastSeenMs(session) + this.options.idleMs
    if (idleAtMs <= this.options.now()) {
      if (mark.readAtMs >= idleAtMs) return true
      // Another process may have seen it since.
      void this.read()
      return false
    }
    return this.roleOf(session) === null
  }

  /** When a session was last seen, as far as this process knows, Unix ms. */
  lastSeenMs({ sessionId, lastSeenAt }: Pick<SessionRow, 'sessionId' | 'lastSeenAt'>): number {
    return Math.max(lastSeenAt.getTime(), this.seen.get(sessionId) ?? 0)
  }

  /** Writes who was seen since the last time. Rejects where the database does not take it; then nothing is lost. */
  async saveUses(): Promise<void> {
    const { sessionUses, adminUses } = this
    if (sessionUses.size === 0 && adminUses.size === 0) return
    this.sessionUses = new Map()
    this.adminUses = new Map()
    try {
      await within(saveWaitMs, saveSessionUses(this.options.db, sessionUses))
      await within(saveWaitMs, saveAdminUses(this.options.db, adminUses))
    } catch (error) {
      for (const [id, at] of sessionUses) if (!this.sessionUses.has(id)) this.sessionUses.set(id, at)
      for (const [id, at] of adminUses) if (!this.adminUses.has(id)) this.adminUses.set(id, at)
      throw error
    }
  }

  /** Resolves when memory holds what the database held after this call. Never rejects. */
  async read(): Promise<void> {
    if (this.reading !== null) {
      // That read may have begun before the change.
      await this.reading
    }
    this.reading ??= this.readOnce().finally(() => {
      this.reading = null
    })
    await this.reading
  }

  private async readOnce(): Promise<void> {
    const { db, now, peppers, failed } = this.options
    const mark = this.freshness.mark()
    try {
      const rows = Promise.all([liveAdmins(db), openSessions(db, new Date(now()))])
      const [admins, open] = await within(readWaitMs, rows)
      const sessions = open.filter((session) => bearsMark(peppers, session))
      this.admins = new Map(admins.map((row) => [row.tokenHash.toString('latin1'), row]))
      this.adminsById = new Map(admins.map((row) => [row.adminId, row]))
      this.sessions = new Map(sessions.map((row) => [row.tokenHash.toString('latin1'), row]))
      this.sessionsById = new Map(sessions.map((row) => [row.sessionId, row]))
      for (const id of this.seen.keys()) if (!this.sessionsById.has(id)) this.seen.delete(id)
      this.mark = mark
    } catch (error) {
      failed(error)
    }
  }

  private doubtMs(): number {
    return this.mark === null ? Number.POSITIVE_INFINITY : this.freshness.doubtMs(this.mark)
  }

  private roleOf({ adminId, sourceHash, method, role }: SessionRow): Role | 'unknown' | null {
    if (method === 'oidc') {
      const stands = this.options.oidcSources.some((one) => sourceHash !== null && equalBytes(one, sourceHash))
      return stands ? role : null
    }
    if (adminId !== null) return this.adminsById.get(adminId)?.role ?? null
    return sourceHash === null ? role : this.options.roleOfSource(sourceHash)
  }

  private callerOfSession(session: SessionRow): Caller | null {
    const nowMs = this.options.now()
    if (session.expiresAt.getTime() <= nowMs || this.lastSeenMs(session) + this.options.idleMs <= nowMs) return null
    const role = this.roleOf(session)
    if (role === null || role === 'unknown') return null
    const { sessionId, adminId, sourceHash, name, actorHashPrefix: actorHash } = session
    return { role, name, adminId, sessionId, sourceHash, actorHash }
  }
}

const callerOfAdmin = ({ role, name, adminId }: AdminRow): Caller => ({
  role,
  name,
  adminId,
  sessionId: null,
  sourceHash: null,
  actorHash: null,
})
