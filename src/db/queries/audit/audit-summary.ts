import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import type { AccessEventRow, CommandEventRow } from './audit-events.ts'

/** Of a sample, those who are alike. */
export interface AccessGroup extends Pick<AccessEventRow, 'method' | 'pathTemplate' | 'actorRole' | 'outcome'> {
  readonly count: number
  readonly lastSeenAt: Date
}
export type RecentAccess = Pick<
  AccessEventRow,
  'method' | 'pathTemplate' | 'actorRole' | 'statusCode' | 'outcome' | 'createdAt'
>
export interface CommandGroup extends Pick<CommandEventRow, 'action' | 'actorType' | 'actorRole'> {
  readonly reasonPresent: boolean
  readonly count: number
  readonly lastSeenAt: Date
}
export interface RecentCommand extends Pick<CommandEventRow, 'commandId' | 'action' | 'actorType' | 'actorRole'> {
  readonly reasonPresent: boolean
  readonly createdAt: Date
}

/** The newest events since an instant, at most `limit`. */
export interface Sample<G, R> {
  /** There were more than `limit`. */
  readonly truncated: boolean
  readonly groups: readonly G[]
  /** Newest first. */
  readonly recent: readonly R[]
}

export interface SampleInput {
  readonly since: Date
  readonly limit: number
  /** Of `recent`, at most. */
  readonly recentMax: number
}

/** JSON has no dates. */
type AsJson<T> = { readonly [K in keyof T]: T[K] extends Date ? string : T[K] }
interface SampleRow<G, R> extends Record<string, unknown> {
  readonly truncated: boolean
  readonly groups: readonly AsJson<G>[]
  readonly recent: readonly AsJson<R>[]
}

/** `recent` are those at `places`. One statement: all parts see the same events, and no event but those leaves the database. */
export async function sampleAccess(
  db: Database,
  { since, limit, recentMax }: SampleInput,
  places: readonly { readonly method: string; readonly pathTemplate: string }[],
): Promise<Sample<AccessGroup, RecentAccess>> {
  const [row] = await db.execute<SampleRow<AccessGroup, RecentAccess>>(sql`
    with newest as materialized (
      select method, path_template, actor_role, status_code, outcome, created_at,
        row_number() over (order by created_at desc, event_id desc) as place
      from admin_access_events where created_at >= ${since.toISOString()}::timestamptz
      order by created_at desc, event_id desc limit ${limit + 1}
    ), sample as (select * from newest where place <= ${limit}),
    groups as (
      select method, path_template as "pathTemplate", actor_role as "actorRole", outcome,
        count(*)::int as count, max(created_at) as "lastSeenAt"
      from sample group by method, path_template, actor_role, outcome
    ), recent as (
      select sample.method, path_template as "pathTemplate", actor_role as "actorRole", status_code as "statusCode", outcome,
        created_at as "createdAt"
      from sample join json_to_recordset(${JSON.stringify(places)}::text::json)
        as wanted ("method" text, "pathTemplate" text)
        on sample.method = wanted.method and path_template = wanted."pathTemplate"
      order by place limit ${recentMax}
    )
    select exists (select from newest where place > ${limit}) as truncated,
      (select coalesce(json_agg(g), '[]') from groups g) as groups,
      (select coalesce(json_agg(r), '[]') from recent r) as recent`)
  return sampleOf(row)
}

/** `recent` has the newest of each group, so that a reader can leave out whole groups. */
export async function sampleCommands(
  db: Database,
  { since, limit, recentMax }: SampleInput,
): Promise<Sample<CommandGroup, RecentCommand>> {
  const [row] = await db.execute<SampleRow<CommandGroup, RecentCommand>>(sql`
    with newest as materialized (
      select command_id, action, actor_type, actor_role, reason is not null as reason_present, created_at,
        row_number() over (order by created_at desc, event_id desc) as place
      from admin_command_events where created_at >= ${since.toISOString()}::timestamptz
      order by created_at desc, event_id desc limit ${limit + 1}
    ), sample as (select * from newest where place <= ${limit}),
    groups as (
      select action, actor_type as "actorType", actor_role as "actorRole", reason_present as "reasonPresent",
        count(*)::int as count, max(created_at) as "lastSeenAt"
      from sample group by action, actor_type, actor_role, reason_present
    ), recent as (
      select command_id as "commandId", action, actor_type as "actorType", actor_role as "actorRole",
        reason_present as "reasonPresent", created_at as "createdAt"
      from (select *, row_number() over (partition by action, actor_type, actor_role, reason_present order by place)
        as among_alike from sample) s
      where among_alike <= ${recentMax} order by place
    )
    select exists (select from newest where place > ${limit}) as truncated,
      (select coalesce(json_agg(g), '[]') from groups g) as groups,
      (select coalesce(json_agg(r), '[]') from recent r) as recent`)
  return sampleOf(row)
}

type SampleOf<G, R> = Sample<G & { readonly lastSeenAt: Date }, R & { readonly createdAt: Date }>

function sampleOf<G, R>(row: SampleRow<G, R> | undefined): SampleOf<G, R> {
  if (row === undefined) throw new Error('a sample without its row')
  return {
    truncated: row.truncated,
    groups: row.groups.map((group) => ({ ...(group as G), lastSeenAt: dateOf(group, 'lastSeenAt') })),
    recent: row.recent.map((event) => ({ ...(event as R), createdAt: dateOf(event, 'createdAt') })),
  }
}

const dateOf = (row: object, name: string) => new Date(String((row as Record<string, unknown>)[name]))

export async function approvalTablePresent(db: Database): Promise<boolean> {
  const [row] = await db.execute<{ present: boolean }>(
    sql`select to_regclass('admin_approval_events') is not null as present`,
  )
  return row?.present ?? false
}
