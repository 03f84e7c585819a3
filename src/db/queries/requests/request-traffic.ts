import { type SQL, sql } from 'drizzle-orm'
import { dayMs } from '../../../time.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import { groupName } from './request-groups.ts'

/** What a set of requests came to. Times are those of buckets, off by 5 % at most. */
export interface Measure {
  readonly requests: number
  /** Ended with a code, though the client had not left. */
  readonly failed: number
  readonly promptTokens: number
  readonly completionTokens: number
  readonly ttftP50: number | null
  readonly ttftP95: number | null
  readonly durationP50: number | null
  readonly durationP95: number | null
}

export interface NamedMeasure extends Measure {
  readonly kind: 'all' | 'node' | 'model'
  /** Empty for all. */
  readonly name: string
}

export interface PointMeasure extends Measure {
  /** Unix ms: where the step begins. */
  readonly atMs: number
}

/** Unix ms; the end is not in it. */
export interface Span {
  readonly fromMs: number
  readonly toMs: number
}

/** Of one node, of one model, or of all. */
export interface TrafficOf {
  readonly nodeId: string | null
  readonly model: string | null
}

/** Where a range is read: whole days and hours that are summed up, and rows for the rest. */
export interface TrafficSources {
  readonly days: Span
  readonly hours: readonly Span[]
  readonly rows: Span
}

/** How many rows one range is read from at most, the newest: some 300 ms of work. */
const trafficRowsMax = 100_000
/** How many names an answer lists, those with the most requests. */
const trafficNamesMax = 2_000

/** Sums up one hour that was over by `closedMs`; false: all are summed up. */
export async function makeRequestSums(db: Database, closedMs: number, keepFromMs: number): Promise<boolean> {
  const [row] = await db.execute<{ made: boolean }>(
    sql`select request_sums_make(${instant(closedMs)}, ${instant(keepFromMs)}) as made`,
  )
  return row?.made ?? false
}

/**
 * Up to where hours and days are summed up, Unix ms; 0: none is. An hour from `fromMs` on that is to be summed up again ends
 * both: what lies behind it is read from rows.
 */
export async function requestSumsUntil(
  db: Database,
  fromMs: number,
): Promise<{ readonly hoursMs: number; readonly daysMs: number }> {
  const end = (seconds: number) =>
    sql`(select extract(epoch from max(at))::bigint * 1000 + ${seconds * 1_000} from request_sums where span_seconds = ${seconds})`
  const late = sql`(select extract(epoch from min(at))::bigint * 1000 from request_sums_late where at >= ${instant(fromMs)})`
  const [row] = await db.execute<{ hours: string | null; days: string | null; late: string | null }>(
    sql`select ${end(3_600)}::text as hours, ${end(86_400)}::text as days, ${late}::text as late`,
  )
  const lateMs = Number(row?.late ?? Number.POSITIVE_INFINITY)
  return {
    hoursMs: Math.min(Number(row?.hours ?? 0), lateMs),
    daysMs: Math.min(Number(row?.days ?? 0), Math.floor(lateMs / dayMs) * dayMs),
  }
}

const instant = (ms: number) => sql`${new Date(ms).toISOString()}::timestamptz`
const within = ({ fromMs, toMs }: Span) => sql`(at >= ${instant(fromMs)} and at < ${instant(toMs)})`

function summed(seconds: number, spans: readonly Span[], { nodeId, model }: TrafficOf, all: boolean): readonly SQL[] {
  const wanted = spans.filter(({ fromMs, toMs }) => fromMs < toMs)
  if (wanted.length === 0) return []
  const named =
    nodeId !== null
      ? sql`and kind = 'node' and name = ${nodeId}`
      : model !== null
        ? sql`and kind = 'model' and name = ${model}`
        : all
          ? sql`and kind = 'all'`
          : sql``
  return [
    sql`select at, ${nodeId === null && model === null ? sql`kind, name` : sql`'all' as kind, '' as name`}, requests, failed, prompt_tokens, completion_tokens, buckets, ttft_counts, duration_counts
      from request_sums where span_seconds = ${seconds} and (${sql.join(wanted.map(within), sql` or `)}) ${named}`,
  ]
}

export interface CellsOf {
  /** Of one range, or of several that do not overlap. */
  readonly sources: readonly TrafficSources[]
  readonly of: TrafficOf
  /** Of the range as a whole, or by steps of this number of seconds. */
  readonly stepSeconds: number | null
}

/** A row per summed hour, day and step of rows, for each name. */
export function cells({ sources, of, stepSeconds }: CellsOf): SQL {
  const all = stepSeconds !== null
  const alone = all || of.nodeId !== null || of.model !== null
  const step = sql`make_interval(secs => ${stepSeconds ?? 86_400})`
  const parts = sources.flatMap(({ days, hours, rows }) => {
    const sums = [...summed(86_400, [days], of, all), ...summed(3_600, hours, of, all)]
    if (rows.fromMs >= rows.toMs && sums.length > 0) return sums
    return [
      ...sums,
      sql`select * from request_cells(${instant(rows.fromMs)}, ${instant(rows.toMs)}, ${step},
        ${of.nodeId}::text, ${of.model}::text, ${alone}, ${trafficRowsMax})`,
    ]
  })
  return sql.join(parts, sql` union all `)
}

interface MeasureRow extends Record<string, unknown> {
  readonly at: string | null
  readonly kind: NamedMeasure['kind'] | null
  readonly name: string | null
  readonly requests: string
  readonly failed: string
  readonly prompt_tokens: string
  readonly completion_tokens: string
  readonly ttft_p50: number | null
  readonly ttft_p95: number | null
  readonly duration_p50: number | null
  readonly duration_p95: number | null
}

/** The middle of a bucket, as `request_bucket` makes them; that of 0 lies below that of 1. */
const bucketMs = (bucket: number | null) =>
  bucket === null ? null : bucket < 0 ? 0 : Math.round(1.1 ** (bucket - 0.5))

const measureOf = (row: MeasureRow): Measure => ({
  requests: Number(row.requests),
  failed: Number(row.failed),
  promptTokens: Number(row.prompt_tokens),
  completionTokens: Number(row.completion_tokens),
  ttftP50: bucketMs(row.ttft_p50),
  ttftP95: bucketMs(row.ttft_p95),
  durationP50: bucketMs(row.duration_p50),
  durationP95: bucketMs(row.duration_p95),
})

const share = (of: number, column: 'ttft' | 'duration') =>
  sql.raw(`min(bucket) filter (where ${column}_all > 0 and ${column}_to >= ${of} * ${column}_all)`)

/** Cells put together by `key`; a percentile is the bucket up to which the counts reach it. */
function measured(what: CellsOf, key: SQL, order: SQL): SQL {
  return sql`
    with cells as (${cells(what)}), keyed as (select ${key}, c.* from cells c),
    whole as (
      select k1, k2, sum(requests) as requests, sum(failed) as failed, sum(prompt_tokens) as prompt_tokens,
        sum(completion_tokens) as completion_tokens
      from keyed group by k1, k2 having sum(requests) > 0
      ${order} limit ${trafficNamesMax}
    ), counted as (
      select k1, k2, bucket, sum(ttft) as ttft, sum(duration) as duration
      from keyed, unnest(buckets, ttft_counts, duration_counts) as u (bucket, ttft, duration) group by 1, 2, 3
    ), running as (
      select k1, k2, bucket, sum(ttft) over up as ttft_to, sum(ttft) over every as ttft_all,
        sum(duration) over up as duration_to, sum(duration) over every as duration_all
      from counted window up as (partition by k1, k2 order by bucket), every as (partition by k1, k2)
    ), shares as (
      select k1, k2, ${share(0.5, 'ttft')} as ttft_p50, ${share(0.95, 'ttft')} as ttft_p95,
        ${share(0.5, 'duration')} as duration_p50, ${share(0.95, 'duration')} as duration_p95
      from running group by 1, 2
    )
    select k1, k2, requests, failed, prompt_tokens, completion_tokens, ttft_p50, ttft_p95, duration_p50, duration_p95
    from whole left join shares using (k1, k2)`
}

/** In all, by node and by model; of one node or model, that alone. */
export async function trafficByName(
  db: Database,
  sources: TrafficSources,
  of: TrafficOf,
): Promise<readonly NamedMeasure[]> {
  const found = await db.execute<MeasureRow & { k1: NamedMeasure['kind']; k2: string }>(
    measured({ sources: [sources], of, stepSeconds: null }, sql`kind as k1, name as k2`, sql`order by requests desc`),
  )
  return found.map((row) => ({ kind: row.k1, name: row.k2, ...measureOf(row) }))
}

/** By steps of time, oldest first; a step without requests is left out. */
export async function trafficBySteps(
  db: Database,
  sources: readonly TrafficSources[],
  of: TrafficOf,
  stepSeconds: number,
): Promise<readonly PointMeasure[]> {
  const key = sql`extract(epoch from date_bin(make_interval(secs => ${stepSeconds}), c.at, 'epoch'))::bigint as k1, '' as k2`
  const found = await db.execute<MeasureRow & { k1: string }>(
    measured({ sources, of, stepSeconds }, key, sql`order by k1 desc`),
  )
  return found.map((row) => ({ atMs: Number(row.k1) * 1_000, ...measureOf(row) })).toSorted((a, b) => a.atMs - b.atMs)
}

/** The part of a range of rows that has too many requests to be read beside the newer ones; null: all are read. */
export async function unreadPart(db: Database, rows: Span, { nodeId, model }: TrafficOf): Promise<Span | null> {
  if (rows.fromMs >= rows.toMs) return null
  const names = [
    ...(nodeId === null ? [] : [groupName('node', nodeId)]),
    ...(model === null ? [] : [groupName('model', model)]),
  ]
  // As `request_cells` chooses its groups.
  const [found] = await db.execute<{ to: string | null }>(sql`
    select (extract(epoch from max(g.newest)) * 1000)::bigint as to from (
      select newest, sum(rows) over (order by newest desc, group_id) - rows as newer from request_groups
      where minute >= date_trunc('minute', ${instant(rows.fromMs)}) and minute < ${instant(rows.toMs)}
        and newest >= ${instant(rows.fromMs)} and oldest < ${instant(rows.toMs)}
        and newest < ${instant(rows.toMs)} + interval '1 minute' and names @> ${arrayOf('text', names)}
    ) as g where g.newer >= ${trafficRowsMax}`)
  const to = found?.to ?? null
  return to === null ? null : { fromMs: rows.fromMs, toMs: Number(to) + 1 }
}
