import { bigint, jsonb, pgTable, primaryKey, smallint, text } from 'drizzle-orm/pg-core'
import { bytea, instant } from '../../columns.ts'

/**
 * The three tables of events. They are partitioned by week, which drizzle-kit does not know: their SQL is the migration
 * `…_audit_events`, and this folder is outside of what it looks at. What stands here and there must be changed together.
 */

const role = () => text({ enum: ['viewer', 'operator', 'admin'] }).notNull()
const callerType = () => text({ enum: ['admin_token', 'unauthenticated', 'customer'] }).notNull()
const actorType = () => text({ enum: ['admin_token', 'unauthenticated', 'customer', 'gateway'] }).notNull()

/** Which of its names an event of a chain may hold: nothing else is ever written (§16). */
export interface AuditMetadata {
  readonly amount_wei?: string
  readonly dry_run?: boolean
  readonly older_than_days?: number
  readonly counts?: Readonly<Record<string, number>>
  readonly format?: 'json' | 'csv'
  readonly window_days?: number
  readonly result?: string
  readonly reason_missing?: boolean
  readonly node_state?: string
  readonly model?: string
  /** What the target was afterwards: a hash, of a customer with its keys, or of the whole catalogue (§36). */
  readonly state?: string
  /** Of a catalogue entry: wei for a token of a prompt and of an answer. */
  readonly prices?: string[]
}

export const accessEvents = pgTable(
  'admin_access_events',
  {
    eventId: text().notNull(),
    actorType: callerType(),
    actorRole: role(),
    actorHashPrefix: text(),
    method: text().notNull(),
    pathTemplate: text().notNull(),
    queryKeys: jsonb().$type<readonly string[]>().notNull(),
    statusCode: smallint().notNull(),
    outcome: text({ enum: ['success', 'denied', 'failed', 'error'] }).notNull(),
    errorCode: text(),
    userAgentHashPrefix: text(),
    ipHashPrefix: text(),
    requestId: text().notNull(),
    createdAt: instant().notNull(),
  },
  (t) => [primaryKey({ columns: [t.createdAt, t.eventId] })],
)

/** What every event of a chain has. */
const chained = () => ({
  eventId: text().notNull(),
  action: text().notNull(),
  actorType: actorType(),
  actorRole: role(),
  actorHashPrefix: text(),
  reason: text(),
  metadata: jsonb().$type<AuditMetadata>().notNull(),
  requestId: text(),
  createdAt: instant().notNull(),
  writerId: text().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
  mac: bytea().notNull(),
})

export const approvalEvents = pgTable(
  'admin_approval_events',
  {
    ...chained(),
    category: text().notNull(),
    targetType: text().notNull(),
    targetId: text(),
    approverHashPrefix: text(),
    approvalPolicy: text().notNull(),
    confirmation: text(),
  },
  (t) => [primaryKey({ columns: [t.createdAt, t.eventId] })],
)

export const commandEvents = pgTable('admin_command_events', { ...chained(), commandId: text().notNull() }, (t) => [
  primaryKey({ columns: [t.createdAt, t.eventId] }),
])
