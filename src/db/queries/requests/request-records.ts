import { and, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { requestRecords } from '../../schema/partitioned/request-records.ts'

export type { FailedTry } from '../../schema/partitioned/request-records.ts'
export type RequestRecord = typeof requestRecords.$inferSelect

export interface RequestFilter {
  /** The first moment of the range, and the one behind its last. */
  readonly from: Date | null
  readonly to: Date | null
  readonly model: string | null
  readonly nodeId: string | null
  readonly customerId: string | null
  readonly keyId: string | null
  readonly status: number | null
  readonly code: string | null
  readonly ttftMsMin: number | null
}

/** Where a page ends: the next one begins behind it. */
export interface RequestPlace {
  readonly at: Date
  readonly requestId: string
}

/** One statement and one parameter for all, which waits for no disk; what is there already stays as it is. */
export async function insertRequestRecords(db: Database, records: readonly RequestRecord[]): Promise<void> {
  if (records.length === 0) return
  await db.execute(sql`
    with quick as materialized (select set_config('synchronous_commit', 'off', true))
    insert into request_records (request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms,
      load_ms, sent_ms, ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei,
      receipt_hash, failed_tries)
    select "requestId", "at", "customerId", "keyId", "operation", "stream", "model", "nodeId", "tries", "queueMs",
      "loadMs", "sentMs", "ttftMs", "durationMs", "promptTokens", "completionTokens", "cachePercent", "status", "code",
      "costWei", "receiptHash", "failedTries"
    from quick, json_to_recordset(${JSON.stringify(records)}::text::json) as r ("requestId" text, "at" timestamptz,
      "customerId" text, "keyId" text, "operation" text, "stream" boolean, "model" text, "nodeId" text,
      "tries" smallint, "queueMs" int, "loadMs" int, "sentMs" int, "ttftMs" int, "durationMs" int,
      "promptTokens" int, "completionTokens" int, "cachePercent" smallint, "status" smallint, "code" text,
      "costWei" numeric, "receiptHash" text, "failedTries" jsonb)
    on conflict do nothing`)
}

/** Makes the days of the range that are not there, and drops those that ended before `keepFrom`; how many were dropped. */
export async function keepRequestRecords(db: Database, from: Date, until: Date, keepFrom: Date): Promise<number> {
  const [row] = await db.execute<{ dropped: number }>(sql`select request_records_keep(
    ${from.toISOString()}::timestamptz, ${until.toISOString()}::timestamptz, ${keepFrom.toISOString()}::timestamptz) as dropped`)
  return row?.dropped ?? 0
}

/** By its id and the moment that the id names, which finds its day. null: no such row. */
export async function getRequestRecord(db: Database, { at, requestId }: RequestPlace): Promise<RequestRecord | null> {
  const [row] = await db
    .select()
    .from(requestRecords)
    .where(and(eq(requestRecords.at, at), eq(requestRecords.requestId, requestId)))
  return row ?? null
}

type Columns = Pick<
  typeof requestRecords,
  'model' | 'nodeId' | 'customerId' | 'keyId' | 'status' | 'code' | 'ttftMs' | 'at' | 'requestId'
>

function fits(columns: Columns, filter: RequestFilter): readonly SQL[] {
  const { model, nodeId, customerId, keyId, status, code, ttftMsMin } = filter
  return [
    ...(model === null ? [] : [eq(columns.model, model)]),
    ...(nodeId === null ? [] : [eq(columns.nodeId, nodeId)]),
    ...(customerId === null ? [] : [eq(columns.customerId, customerId)]),
    ...(keyId === null ? [] : [eq(columns.keyId, keyId)]),
    ...(status === null ? [] : [eq(columns.status, status)]),
    ...(code === null ? [] : [eq(columns.code, code)]),
    ...(ttftMsMin === null ? [] : [gte(columns.ttftMs, ttftMsMin)]),
  ]
}

const rangeOf = ({ at, requestId }: Columns, { from, to }: RequestFilter, after: RequestPlace | null) =>
  and(
    ...(from === null ? [] : [gte(at, from)]),
    ...(to === null ? [] : [lt(at, to)]),
    ...(after === null
      ? []
      : [sql`(${at}, ${requestId}) < (${after.at.toISOString()}::timestamptz, ${after.requestId})`]),
  )

/** Rows that are looked through, newest first, before the indexes of the filters are asked: at least so many. */
const newestRowsMin = 5_000
const newestRowsPerWanted = 5

/**
 * A page, newest first. Two steps, as for the events of the audit: first among the newest, by the primary key; if they do not
 * hold enough, what fits is rare. Of one filter its own index has the order then. Of several, and of a least time, what fits
 * is found and sorted, or the planner walks down the primary key in hope of rows that never come.
 */
export async function listRequestRecords(
  db: Database,
  filter: RequestFilter,
  after: RequestPlace | null,
  limit: number,
): Promise<readonly RequestRecord[]> {
  const order = [desc(requestRecords.at), desc(requestRecords.requestId)] as const
  const range = rangeOf(requestRecords, filter, after)
  const wanted = fits(requestRecords, filter)
  const newest = db
    .select()
    .from(requestRecords)
    .where(range)
    .orderBy(...order)
  if (wanted.length === 0) return newest.limit(limit)
  const window = newest.limit(Math.max(newestRowsMin, limit * newestRowsPerWanted)).as('newest')
  const near = await db
    .select()
    .from(window)
    .where(and(...fits(window as unknown as Columns, filter)))
    .orderBy(desc(window.at), desc(window.requestId))
    .limit(limit)
  if (near.length === limit) return near
  const found = db
    .select()
    .from(requestRecords)
    .where(and(range, ...wanted))
  const single = wanted.length === 1 && filter.ttftMsMin === null
  const sorted = single ? order : ([sql`${requestRecords.at} + interval '0' desc`, order[1]] as const)
  return found.orderBy(...sorted).limit(limit)
}
