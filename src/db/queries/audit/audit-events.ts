import { and, desc, eq, gte, inArray, lt, or, type SQL, sql } from 'drizzle-orm'
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
/** `actors`: the hash prefixes of who acted or agreed; an empty list fits no event. */
interface OfActors {
  readonly actors?: readonly string[] | null
}
export type AccessFilter = Filter<AccessEventRow, 'method' | 'pathTemplate' | 'statusCode' | 'actorRole'> & OfActors
export type ApprovalFilter = Filter<ApprovalEventRow, 'action' | 'category' | 'targetType' | 'targetId' | 'actorRole'> &
  OfActors
export type CommandFilter = Filter<CommandEventRow, 'commandId' | 'action' | 'actorRole'> & OfActors

type Filters = AccessFilter | ApprovalFilter | CommandFilter
type EventTable = typeof accessEvents | typeof approvalEvents | typeof commandEvents

function conditions(table: EventTable, { actors, ...filter }: Filters): SQL | undefined {
  const columns = table as unknown as Record<string, (typeof table)['eventId']>
  const given = Object.entries(filter).filter(([, value]) => value != null)
  const equal = given.map(([name, value]) => eq(columns[name] ?? table.eventId, value as string))
  if (actors == null) return and(...equal)
  const { actorHashPrefix, approverHashPrefix } = columns
  const either = [actorHashPrefix, approverHashPrefix].flatMap((column) =>
    column === undefined ? [] : [inArray(column, [...actors])],
  )
  return and(...equal, or(...either))
}

/** The least number of rows that are searched, newest first, before the filters' indexes are used. */
const newestRowsMin = 5_000
const newestRowsPerWanted = 10

/** A part of a list: its range, and the event behind which it begins. */
export interface EventPage {
  readonly from: Date | null
  readonly to: Date | null
  readonly after: { readonly at: Date; readonly id: string } | null
}
const wholeList: EventPage = { from: null, to: null, after: null }

const pageConditions = ({ createdAt, eventId }: typeof accessEvents, { from, to, after }: EventPage) => [
  ...(from === null ? [] : [gte(createdAt, from)]),
  ...(to === null ? [] : [lt(createdAt, to)]),
  ...(after === null ? [] : [sql`(${createdAt}, ${eventId}) < (${after.at.toISOString()}::timestamptz, ${after.id})`]),
]

/**
 * The newest events that fit, newest first. Two steps, so that neither a filter that most rows pass nor one that none
 * does costs a walk through all: first among the newest, by the primary key; if they do not hold enough, what fits is
 * rare, is found by the indexes of the filters and sorted. (In one statement the planner walks down the primary key in
 * hope of rows that never come: `created_at` as an expression keeps it from that.)
 */
async function newest<T extends EventTable>(
  db: Database,
  table: T,
  filter: Filters,
  limit: number,
  page: EventPage,
): Promise<T['$inferSelect'][]> {
  const plain = table as typeof accessEvents
  const fits = conditions(table, filter)
  const order = [desc(plain.createdAt), desc(plain.eventId)] as const
  const inPage = and(...pageConditions(plain, page))
  const walk = db
    .select()
    .from(plain)
    .where(inPage)
    .orderBy(...order)
  if (fits === undefined) return walk.limit(limit)
  const window = walk.limit(Math.max(newestRowsMin, limit * newestRowsPerWanted)).as('newest')
  const near = await db
    .select()
    .from(window)
    .where(conditions(window as unknown as EventTable, filter))
    .orderBy(desc(window.createdAt), desc(window.eventId))
    .limit(limit)
  if (near.length === limit) return near
  const byExpression = sql`${plain.createdAt} + interval '0' desc`
  return db.select().from(plain).where(and(inPage, fits)).orderBy(byExpression, desc(plain.eventId)).limit(limit)
}

export function listAccessEvents(
  db: Database,
  filter: AccessFilter,
  limit: number,
  page = wholeList,
): Promise<AccessEventRow[]> {
  return newest(db, accessEvents, filter, limit, page)
}

export function listApprovalEvents(
  db: Database,
  filter: ApprovalFilter,
  limit: number,
  page = wholeList,
): Promise<ApprovalEventRow[]> {
  return newest(db, approvalEvents, filter, limit, page)
}

export function listCommandEvents(
  db: Database,
  filter: CommandFilter,
  limit: number,
  page = wholeList,
): Promise<CommandEventRow[]> {
  return newest(db, commandEvents, filter, limit, page)
}
