import { and, desc, eq, gt, inArray, isNotNull, isNull, lt, lte, or, sql } from 'drizzle-orm'
import type { AdminId, SessionId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { actorNames, admins, consoleSessions } from '../../schema/operators.ts'

export type AdminRow = typeof admins.$inferSelect
export type NewAdmin = Pick<AdminRow, 'adminId' | 'name' | 'role' | 'tokenHash' | 'displayPrefix' | 'createdAt'>
export type SessionRow = typeof consoleSessions.$inferSelect
export type NewSession = Omit<SessionRow, 'endedAt' | 'endReason' | 'lastSeenAt'>
export type SessionEnd = NonNullable<SessionRow['endReason']>
export type ActorName = Pick<typeof actorNames.$inferSelect, 'actorHashPrefix' | 'name' | 'adminId'>

/** Held until the transaction ends: what counts tokens or sessions is done by one at a time. */
export async function lockOperators(tx: Database): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 5)`)
}

/** Revoked ones are not there. */
export async function liveAdmins(db: Database): Promise<readonly AdminRow[]> {
  return db.select().from(admins).where(isNull(admins.revokedAt))
}

/** Newest first, with the revoked ones. */
export async function listAdmins(db: Database, limit: number): Promise<readonly AdminRow[]> {
  return db.select().from(admins).orderBy(desc(admins.createdAt), desc(admins.adminId)).limit(limit)
}

export async function insertAdmin(db: Database, admin: NewAdmin): Promise<AdminRow> {
  const [row] = await db.insert(admins).values(admin).returning()
  if (row === undefined) throw new Error('an admin was not inserted')
  return row
}

/** The first revocation stands. null: no such admin. */
export async function revokeAdmin(db: Database, adminId: string, at: Date): Promise<AdminRow | null> {
  const [row] = await db
    .update(admins)
    .set({ revokedAt: sql`coalesce(${admins.revokedAt}, ${at.toISOString()}::timestamptz)` })
    .where(eq(admins.adminId, adminId as AdminId))
    .returning()
  return row ?? null
}

/** Resolves with how many tokens ended. */
export async function revokeAdminsOfRole(db: Database, role: AdminRow['role'], at: Date): Promise<number> {
  const ended = await db
    .update(admins)
    .set({ revokedAt: at })
    .where(and(eq(admins.role, role), isNull(admins.revokedAt)))
    .returning({ adminId: admins.adminId })
  return ended.length
}

/** A name that a prefix has already stays, unless the person has another one now. */
export async function nameActor(db: Database, actor: ActorName): Promise<void> {
  await db
    .insert(actorNames)
    .values(actor)
    .onConflictDoUpdate({ target: actorNames.actorHashPrefix, set: { name: actor.name, adminId: actor.adminId } })
}

export async function readActorNames(db: Database, prefixes: readonly string[]): Promise<readonly ActorName[]> {
  if (prefixes.length === 0) return []
  return db
    .select({ actorHashPrefix: actorNames.actorHashPrefix, name: actorNames.name, adminId: actorNames.adminId })
    .from(actorNames)
    .where(inArray(actorNames.actorHashPrefix, [...prefixes]))
}

/** The prefixes of a person, in any case of letters: one more for each rotation of SVC_AUDIT_KEY. */
export async function prefixesOfName(db: Database, name: string, limit: number): Promise<readonly string[]> {
  const found = await db
    .select({ prefix: actorNames.actorHashPrefix })
    .from(actorNames)
    .where(sql`lower(${actorNames.name}) = lower(${name})`)
    .orderBy(desc(actorNames.namedAt))
    .limit(limit)
  return found.map(({ prefix }) => prefix)
}

const open = (now: Date) => and(isNull(consoleSessions.endedAt), gt(consoleSessions.expiresAt, now))

/** Sessions that were not ended and have not expired. The caller judges their idle time. */
export async function openSessions(db: Database, now: Date): Promise<readonly SessionRow[]> {
  return db.select().from(consoleSessions).where(open(now))
}

/** Newest first, with those that have ended. */
export async function listSessions(db: Database, limit: number): Promise<readonly SessionRow[]> {
  return db
    .select()
    .from(consoleSessions)
    .orderBy(desc(consoleSessions.createdAt), desc(consoleSessions.sessionId))
    .limit(limit)
}

/** null: no such session. */
export async function getSession(db: Database, sessionId: SessionId): Promise<SessionRow | null> {
  const [row] = await db.select().from(consoleSessions).where(eq(consoleSessions.sessionId, sessionId))
  return row ?? null
}

/** null: this sign-in has made its session before. */
export async function insertSession(db: Database, session: NewSession): Promise<SessionRow | null> {
  const [row] = await db
    .insert(consoleSessions)
    .values({ ...session, lastSeenAt: session.createdAt })
    .onConflictDoNothing({ target: consoleSessions.signInHash })
    .returning()
  return row ?? null
}

/** The first end stands. null: no such session. */
export async function endSession(
  db: Database,
  sessionId: string,
  at: Date,
  reason: SessionEnd,
): Promise<SessionRow | null> {
  const [row] = await db
    .update(consoleSessions)
    .set({
      endedAt: sql`coalesce(${consoleSessions.endedAt}, ${at.toISOString()}::timestamptz)`,
      endReason: sql`coalesce(${consoleSessions.endReason}, ${reason})`,
    })
    .where(eq(consoleSessions.sessionId, sessionId as SessionId))
    .returning()
  return row ?? null
}

/** Ends the sessions that a named token made. */
export async function endSessionsOfAdmin(db: Database, adminId: AdminId, at: Date): Promise<void> {
  await db
    .update(consoleSessions)
    .set({ endedAt: at, endReason: 'admin_revoked' })
    .where(and(eq(consoleSessions.adminId, adminId), isNull(consoleSessions.endedAt)))
}

/** Ends every session of a role, however it began. */
export async function endSessionsOfRole(db: Database, role: SessionRow['role'], at: Date): Promise<void> {
  await db
    .update(consoleSessions)
    .set({ endedAt: at, endReason: 'admin_revoked' })
    .where(and(eq(consoleSessions.role, role), isNull(consoleSessions.endedAt)))
}

/** Forgets the sessions that were over before this time, and of the others that are over all but the newest. */
export async function dropOldSessions(
  db: Database,
  { now, before, overMax }: { readonly now: Date; readonly before: Date; readonly overMax: number },
): Promise<void> {
  await db.delete(consoleSessions).where(or(lt(consoleSessions.expiresAt, before), lt(consoleSessions.endedAt, before)))
  const over = db
    .select({ sessionId: consoleSessions.sessionId })
    .from(consoleSessions)
    .where(or(isNotNull(consoleSessions.endedAt), lte(consoleSessions.expiresAt, now)))
    .orderBy(desc(consoleSessions.createdAt), desc(consoleSessions.sessionId))
    .offset(overMax)
  await db.delete(consoleSessions).where(inArray(consoleSessions.sessionId, over))
}

/** One statement for all; a time that is already later stays. */
export async function saveSessionUses(db: Database, uses: ReadonlyMap<SessionId, number>): Promise<void> {
  if (uses.size === 0) return
  const rows = [...uses].map(([id, atMs]) => sql`(${id}::text, ${new Date(atMs).toISOString()}::timestamptz)`)
  await db.execute(sql`
    update console_sessions s set last_seen_at = u.at
    from (values ${sql.join(rows, sql`, `)}) as u(session_id, at)
    where s.session_id = u.session_id and s.last_seen_at < u.at`)
}

/** One statement for all; a time that is already later stays. */
export async function saveAdminUses(db: Database, uses: ReadonlyMap<AdminId, number>): Promise<void> {
  if (uses.size === 0) return
  const rows = [...uses].map(([id, atMs]) => sql`(${id}::text, ${new Date(atMs).toISOString()}::timestamptz)`)
  await db.execute(sql`
    update admins a set last_used_at = u.at
    from (values ${sql.join(rows, sql`, `)}) as u(admin_id, at)
    where a.admin_id = u.admin_id and (a.last_used_at is null or a.last_used_at < u.at)`)
}
