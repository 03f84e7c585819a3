import { bigint, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import { bytea, instant } from '../columns.ts'

/** The head of each writer's chain (§16); a row per process that has written an event. */
export const auditChains = pgTable('audit_chains', {
  writerId: text().primaryKey(),
  /** 1, 2, … without a gap: a writer that was removed whole leaves one. */
  ordinal: integer().notNull().unique(),
  /** Of the key of SVC_AUDIT_KEY that made the MACs. */
  keyId: text().notNull(),
  /** Of its last event. */
  seq: bigint({ mode: 'number' }).notNull(),
  mac: bytea().notNull(),
  lastAt: instant().notNull(),
  /** Keyed, over the row itself: an older head cannot be made up. */
  proof: bytea().notNull(),
})

/** Where a chain begins after a purge: its last event that was removed. */
export const auditTombstones = pgTable(
  'audit_tombstones',
  {
    writerId: text().notNull(),
    seq: bigint({ mode: 'number' }).notNull(),
    mac: bytea().notNull(),
    runId: text().notNull(),
    purgedAt: instant().notNull(),
    keyId: text().notNull(),
    proof: bytea().notNull(),
  },
  (t) => [primaryKey({ columns: [t.writerId, t.seq] })],
)

/** Who asked for a purge and why, as its last event will say it. */
export interface PurgeAsker {
  readonly actorType: string
  readonly actorRole: string
  readonly actorHashPrefix: string | null
  readonly approverHashPrefix: string | null
  readonly reason: string | null
  readonly confirmation: string | null
  readonly requestId: string | null
}

/** One purge: what it counted, what it has removed so far. A gateway that stopped in the middle leaves it `running`. */
export const auditPurgeRuns = pgTable('audit_purge_runs', {
  runId: text().primaryKey(),
  status: text({ enum: ['running', 'done'] }).notNull(),
  olderThanDays: integer().notNull(),
  cutoff: instant().notNull(),
  asker: jsonb().$type<PurgeAsker>().notNull(),
  eligibleAccess: bigint({ mode: 'number' }).notNull(),
  eligibleCommand: bigint({ mode: 'number' }).notNull(),
  eligibleApproval: bigint({ mode: 'number' }).notNull(),
  purgedAccess: bigint({ mode: 'number' }).notNull().default(0),
  purgedCommand: bigint({ mode: 'number' }).notNull().default(0),
  purgedApproval: bigint({ mode: 'number' }).notNull().default(0),
  startedAt: instant().notNull(),
  finishedAt: instant(),
})
