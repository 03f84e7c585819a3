import { and, desc, eq, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { accessEvents, approvalEvents, commandEvents } from '../../schema/partitioned/audit-events.ts'

export type { AuditMetadata } from '../../schema/partitioned/audit-events.ts'
export type AccessEventRow = typeof accessEvents.$inferSelect
export type ApprovalEventRow = typeof approvalEvents.$inferSelect
export type CommandEventRow = typeof commandEvents.$inferSelect

/** Makes the weekly partitions of the three tables that are not there yet; how many tables were made. */
export async function ensureAuditPartitions(db: Database, from: Date, until: Date): Promise<number> {
  const [row] = await db.execute<{ made: number }>(
    sql`select audit_ensure_partitions(${from.toISOString()}::timestamptz, ${until.toISOString()}::timestamptz) as made`,
  )
  return row?.made ?? 0
}

/** One statement and one parameter for all; what is there already stays as it is, so it may be sent again. */
export async function insertAccessEvents(db: Database, events: readonly AccessEventRow[]): Promise<void> {
  if (events.length === 0) return
  await db.execute(sql`
    insert into admin_access_events (event_id, actor_type, actor_role, actor_hash_prefix, method, path_template,
      query_keys, status_code, outcome, error_code, user_agent_hash_prefix, ip_hash_prefix, request_id, created_at)
    select "eventId", "actorType", "actorRole", "actorHashPrefix", "method", "pathTemplate", "queryKeys", "statusCode",
      "outcome", "errorCode", "userAgentHashPrefix", "ipHashPrefix", "requestId", "createdAt"
    from json_to_recordset(${JSON.stringify(events)}::text::json) as r ("eventId" text, "actorType" text,
      "actorRole" text, "actorHashPrefix" text, "method" text, "pathTemplate" text, "queryKeys" jsonb,
      "statusCode" smallint, "outcome" text, "errorCode" text, "userAgentHashPrefix" text, "ipHashPrefix" text,
      "requestId" text, "createdAt" timestamptz)
    on conflict do nothing`)
}

type Filter<R, K extends keyof R> = { readonly [N in K]?: R[N] | null }
export type AccessFilter = Filter<AccessEventRow, 'method' | 'pathTemplate' | 'statusCode' | 'actorRole'>
export type ApprovalFilter = Filter<ApprovalEventRow, 'action' | 'category' | 'targetType' | 'targetId' | 'actorRole'>
export type CommandFilter = Filter<CommandEventRow, 'commandId' | 'action' | 'actorRole'>

type EventTable = typeof accessEvents | typeof approvalEvents | typeof commandEvents

function conditions(table: EventTable, filter: Readonly<Record<string, unknown>>): SQL | undefined {
  const columns = table as unknown as Record<string, (typeof table)['eventId']>
  const given = Object.entries(filter).filter(([, value]) => value != null)
  return and(...given.map(([name, value]) => eq(columns[name] ?? table.eventId, value as string)))
}

/** Rows that are looked through, newest first, before the indexes of the filters are asked: at least so many. */
const newestRowsMin = 5_000
const newestRowsPerWanted = 10

/**
 * The newest events that fit, newest first. Two steps, so that neither a filter that most rows pass nor one that none
 * does costs a walk through all: first among the newest, by the primary key; if they do not hold enough, what fits is
 * rare, is found by the indexes of the filters and sorted. (In one statement the planner walks down the primary key in
 * hope of rows that never come: `created_at` as an expression keeps it from that.)
 */
async function newest<T extends EventTable>(
  db: Database,
  table: T,
  filter: Readonly<Record<string, unknown>>,
  limit: number,
): Promise<T['$inferSelect'][]> {
  const plain = table as typeof accessEvents
  const fits = conditions(table, filter)
  const order = [desc(plain.createdAt), desc(plain.eventId)] as const
  if (fits === undefined)
    return db
      .select()
      .from(plain)
      .orderBy(...order)
      .limit(limit)
  const depth = Math.max(newestRowsMin, limit * newestRowsPerWanted)
  const window = db
    .select()
    .from(plain)
    .orderBy(...order)
    .limit(depth)
    .as('newest')
  const near = await db
    .select()
    .from(window)
    .where(conditions(window as unknown as EventTable, filter))
    .orderBy(desc(window.createdAt), desc(window.eventId))
    .limit(limit)
  if (near.length === limit) return near
  const byExpression = sql`${plain.createdAt} + interval '0' desc`
  return db.select().from(plain).where(fits).orderBy(byExpression, desc(plain.eventId)).limit(limit)
}

export function listAccessEvents(db: Database, filter: AccessFilter, limit: number): Promise<AccessEventRow[]> {
  return newest(db, accessEvents, filter, limit)
}

export function listApprovalEvents(db: Database, filter: ApprovalFilter, limit: number): Promise<ApprovalEventRow[]> {
  return newest(db, approvalEvents, filter, limit)
}

export function listCommandEvents(db: Database, filter: CommandFilter, limit: number): Promise<CommandEventRow[]> {
  return newest(db, commandEvents, filter, limit)
}
