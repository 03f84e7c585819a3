import { type SQL, sql } from 'drizzle-orm'
import { hourMs, minuteMs } from '../../../time.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { groupName, type RequestColumn, requestColumns } from './request-groups.ts'
import { groupMayHave, outcomeFits } from './request-outcomes.ts'
import type { RequestFilter } from './request-records.ts'

/** What failed requests have in common beside status and code. */
const failureParts = ['model', 'node', 'key', 'customer'] as const
export type FailurePart = (typeof failureParts)[number]

export interface FailureShare {
  /** Of a model, or an id. */
  readonly name: string
  readonly requests: number
}

/** Failed requests of one status and code. */
export interface FailureCluster {
  readonly status: number
  readonly code: string
  readonly requests: number
  readonly firstAt: Date
  readonly lastAt: Date
  /** The newest of them. */
  readonly requestId: string
  /** How many different ones there are. */
  readonly distinct: Readonly<Record<FailurePart, number>>
  /** Those with the most requests, at most `namesMax`. */
  readonly most: Readonly<Record<FailurePart, readonly FailureShare[]>>
}

/** Failed requests of one status in one step of time. */
export interface FailureStep {
  /** Unix ms: where the step begins. */
  readonly atMs: number
  readonly status: number
  readonly requests: number
}

export interface Failures {
  readonly clusters: readonly FailureCluster[]
  /** Oldest first; a step in which none failed is left out. */
  readonly steps: readonly FailureStep[]
  readonly stepMs: number
  /** Unix ms: what is older was not read; null: all was. */
  readonly reachMs: number | null
}

export type FailuresOf = Pick<RequestFilter, 'model' | 'nodeId' | 'customerId' | 'keyId'>

/** How many requests are read at most, the newest, of groups with a failure: some 200 ms of work. */
export const failureRowsMax = 100_000
export const clustersMax = 100
const namesMax = 3

/** Minutes of a range of up to three hours, hours of a longer one. */
export const failureStepMs = ({ fromMs, toMs }: { readonly fromMs: number; readonly toMs: number }): number =>
  toMs - fromMs <= 3 * hourMs ? minuteMs : hourMs

const instant = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`

const read = ['requestId', 'customerId', 'keyId', 'model', 'nodeId', 'status', 'code'] as const
const columns = requestColumns
  .map((column, at) => ({ ...column, shared: at === 0 ? 1 : at + 2 }))
  .filter(({ field }) => (read as readonly string[]).includes(field))
const names = (of: string) => sql.raw(columns.map(({ column }) => `${of}${column}`).join(', '))
const values = sql.raw(
  columns
    .map(({ column, type, shared }) => `coalesce(e.${column}, g.shared[${shared}]::${type}) as ${column}`)
    .join(', '),
)
const columnOf: Readonly<Record<FailurePart, RequestColumn['column']>> = {
  model: 'model',
  node: 'node_id',
  key: 'key_id',
  customer: 'customer_id',
}

const asked = ({ model, nodeId, customerId, keyId }: FailuresOf) =>
  (
    [
      ['model', model],
      ['node', nodeId],
      ['customer', customerId],
      ['key', keyId],
    ] as const
  ).flatMap(([part, name]) => (name === null ? [] : [{ part, name }]))

function where(parts: ReturnType<typeof asked>): SQL {
  const conditions = parts.map(({ part, name }) => sql`${sql.raw(`r.${columnOf[part]}`)} = ${name}`)
  return sql.join([outcomeFits('failed', sql.raw('r.status'), sql.raw('r.code')), ...conditions], sql` and `)
}

interface Row extends Record<string, unknown> {
  readonly status: number
  readonly code: string
  readonly requests: string
  readonly first_at: string
  readonly last_at: string
  readonly request_id: string
  readonly part: FailurePart | null
  readonly distinct: string | null
  readonly most: readonly FailureShare[] | null
  readonly reach: string | null
  readonly steps: readonly FailureStep[] | null
}

const each = <T>(value: (part: FailurePart) => T) =>
  Object.fromEntries(failureParts.map((part) => [part, value(part)])) as Record<FailurePart, T>

function clusterOf(rows: readonly Row[]): FailureCluster {
  const [head] = rows as readonly [Row]
  const of = (part: FailurePart) => rows.find((row) => row.part === part)
  return {
    status: head.status,
    code: head.code,
    requests: Number(head.requests),
    firstAt: new Date(Number(head.first_at)),
    lastAt: new Date(Number(head.last_at)),
    requestId: head.request_id,
    distinct: each((part) => Number(of(part)?.distinct ?? 0)),
    most: each((part) => of(part)?.most ?? []),
  }
}

const ms = (moment: string) => sql.raw(`(extract(epoch from ${moment}) * 1000)::bigint`)

/** The failed requests of a range (Unix ms; the end is not in it), by status and code, most requests first. */
export async function requestFailures(
  db: Database,
  range: { readonly fromMs: number; readonly toMs: number },
  of: FailuresOf,
): Promise<Failures> {
  const [from, to] = [instant(range.fromMs), instant(range.toMs)]
  const stepMs = failureStepMs(range)
  const parts = asked(of)
  const groups = parts.map(({ part, name }) => groupName(part, name))
  const rows = await db.execute<Row>(sql`
    with newest as (
      select g.minute, g.group_id, g.newest, sum(g.rows) over (order by g.newest desc, g.group_id) - g.rows as newer
      from request_groups g
      where g.minute >= date_trunc('minute', ${from}) and g.minute < ${to} and g.newest >= ${from} and g.oldest < ${to}
        and g.newest < ${to} + interval '1 minute' and g.names @> ${arrayOf('text', groups)} and ${groupMayHave('failed')}
    ), failed as materialized (
      select r.* from newest join request_groups g using (minute, group_id),
        unnest(g.at_ms, ${names('g.')}) as e (at_ms, ${names('')}),
        lateral (select g.minute + e.at_ms * interval '1 millisecond' as at, ${values} offset 0) as r
      where newer < ${failureRowsMax} and r.at >= ${from} and r.at < ${to} and ${where(parts)}
    ), clusters as (
      select status, code, count(*) as requests, min(at) as first_at, max(at) as last_at,
        (array_agg(request_id order by at desc, request_id desc))[1] as request_id
      from failed group by 1, 2 order by 3 desc, 1, 2 limit ${clustersMax}
    ), steps as (
      select date_bin(make_interval(secs => ${stepMs / 1_000}), at, 'epoch') as at, status, count(*) as requests
      from failed group by 1, 2
    ), named as (
      select f.status, f.code, v.part, v.name, count(*) as requests from failed f,
        lateral (values ${sql.join(
          failureParts.map((part) => sql`(${part}, ${sql.raw(`f.${columnOf[part]}`)})`),
          sql`, `,
        )}) as v (part, name)
      where v.name is not null group by 1, 2, 3, 4
    ), ranked as (
      select n.*, row_number() over (partition by status, code, part order by requests desc, name) as place from named n
    ), shares as (
      select status, code, part, count(*) as distinct,
        json_agg(json_build_object('name', name, 'requests', requests) order by place) filter (where place <= ${namesMax}) as most
      from ranked group by 1, 2, 3
    )
    select c.status, c.code, c.requests, ${ms('c.first_at')} as first_at, ${ms('c.last_at')} as last_at, c.request_id,
      s.part, s.distinct, s.most, (select ${ms('max(newest)')} from newest where newer >= ${failureRowsMax}) as reach,
      (select json_agg(json_build_object('atMs', ${ms('at')}, 'status', status, 'requests', requests) order by at, status) from steps)
        as steps
    from clusters c left join shares s using (status, code) order by c.requests desc, c.status, c.code`)
  const clusters = [...Map.groupBy(rows, ({ status, code }) => `${status} ${code}`).values()]
  const reach = rows[0]?.reach ?? null
  return {
    clusters: clusters.map(clusterOf),
    steps: rows[0]?.steps ?? [],
    stepMs,
    reachMs: reach === null ? null : Number(reach),
  }
}
