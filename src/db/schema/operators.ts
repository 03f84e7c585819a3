import { sql } from 'drizzle-orm'
import { index, pgTable, text, uniqueIndex } from 'drizzle-orm/pg-core'
import type { AdminId, SessionId } from '../../ids.ts'
import { bytea, createdAt, instant } from '../columns.ts'

const role = () => text({ enum: ['admin', 'operator', 'viewer'] }).notNull()

/** Role tokens that bear the name of a person or a program. Those of the first start stand in `admin_tokens`. */
export const admins = pgTable(
  'admins',
  {
    adminId: text().$type<AdminId>().primaryKey(),
    name: text().notNull(),
    role: role(),
    tokenHash: bytea().notNull().unique(),
    displayPrefix: text().notNull(),
    createdAt: createdAt(),
    lastUsedAt: instant(),
    revokedAt: instant(),
  },
  (t) => [uniqueIndex('admins_live_name').on(sql`lower(${t.name})`).where(sql`${t.revokedAt} is null`)],
)

/**
 * Whose hash prefix it is that an audit event holds. The list refers to no other row: it outlives the token, so that an
 * old event keeps its name.
 */
export const actorNames = pgTable('actor_names', {
  actorHashPrefix: text().primaryKey(),
  name: text().notNull(),
  /** null: a person who signed in by OpenID Connect, or a token that SVC_TOKEN_NAMES names. */
  adminId: text().$type<AdminId>(),
  namedAt: createdAt(),
})

/** Who is signed in to the console, and who was. */
export const consoleSessions = pgTable(
  'console_sessions',
  {
    sessionId: text().$type<SessionId>().primaryKey(),
    tokenHash: bytea().notNull().unique(),
    method: text({ enum: ['token', 'oidc'] }).notNull(),
    role: role(),
    name: text(),
    actorHashPrefix: text().notNull(),
    /** The named token that it was made with. The session ends with it. */
    adminId: text()
      .$type<AdminId>()
      .references(() => admins.adminId),
    /** The role token without a name that it was made with. */
    sourceHash: bytea(),
    /** The sign-in at the provider, which makes one session at most. */
    signInHash: bytea().unique(),
    createdAt: createdAt(),
    lastSeenAt: instant().notNull(),
    expiresAt: instant().notNull(),
    endedAt: instant(),
    endReason: text({ enum: ['signed_out', 'revoked', 'admin_revoked', 'replaced'] }),
    /** By the pepper, over whose session it is, its role and its end: without it no session is one. null: of a version before. */
    mark: text(),
  },
  (t) => [
    index('console_sessions_live').on(t.expiresAt).where(sql`${t.endedAt} is null`),
    index('console_sessions_by_admin').on(t.adminId),
  ],
)
