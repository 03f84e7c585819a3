import { and, desc, eq, gte, lt, type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../arrays.ts'
import type { Database, OpenDatabase } from '../../client.ts'
import { insertRows } from '../../insert-rows.ts'
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

const columnNames = `request_id, at, customer_id, key_id, operation, stream, model, node_id, tries, queue_ms, load_ms, sent_ms,
  ttft_ms, duration_ms, prompt_tokens, completion_tokens, cache_percent, status, code, cost_wei, receipt_hash, failed_tries`

const valuesOf = (record: RequestRecord): Row => [
  record.requestId,
  record.at.toISOString(),
  record.customerId,
  record.keyId,
  record.operation,
  record.stream,
  record.model,
  record.nodeId,
  record.tries,
  record.queueMs,
  record.loadMs,
  record.sentMs,
  record.ttftMs,
  record.durationMs,
  record.promptTokens,
  record.completionTokens,
  record.cachePercent,
  record.status,
  record.code,
  record.costWei,
  record.receiptHash,
  record.failedTries === null ? null : JSON.stringify(record.failedTries),
]

/** All or none, without a wait for the disk; what is there already stays as it is. */
export async function insertRequestRecords(
  database: Pick<OpenDatabase, 'sql'>,
  records: readonly RequestRecord[],
): Promise<void> {
  await insertRows(database, {
    target: `request_records (${columnNames})`,
    insert: 'request_records_insert_columns',
    rows: records.map(valuesOf),
    lazily: true,
  })
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

/** Rows that are looked through in their order before what all filters have in common is worked out. */
const rowsWalkedMax = 10_000

/** The filter that is likely to leave the fewest rows, of those whose index is sorted by time. null: none is. */
function leadingOf(filter: RequestFilter): Partial<RequestFilter> | null {
  const { code, status, keyId, customerId, nodeId, model } = filter
  if (code !== null) return { code }
  // Most requests succeed, and have no such index.
  if (status !== null && status !== 200) return { status }
  if (keyId !== null) return { keyId }
  if (customerId !== null) return { customerId }
  if (nodeId !== null) return { nodeId }
  return model === null ? null : { model }
}

const unfiltered: RequestFilter = {
  from: null,
  to: null,
  model: null,
  nodeId: null,
  customerId: null,
  keyId: null,
  status: null,
  code: null,
  ttftMsMin: null,
}

/**
 * A page, newest first. Rows are walked in their order by the index of one filter, and the others are looked at in each row. One
 * filter alone is answered so, whatever it leaves. Of several, the walk ends after a bound: if it has not found enough, what they
 * have in common is rare, and is worked out from all of their indexes and sorted (else the walk would go on in hope of rows that
 * never come; `at` as an expression keeps the planner from it).
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
  const leading = leadingOf(filter)
  const led = leading === null ? [] : fits(requestRecords, { ...unfiltered, ...leading })
  const walk = db
    .select()
    .from(requestRecords)
    .where(and(range, ...led))
    .orderBy(...order)
  if (wanted.length === led.length) return walk.limit(limit)
  const walked = walk.limit(rowsWalkedMax).as('walked')
  const near = await db
    .select()
    .from(walked)
    .where(and(...fits(walked as unknown as Columns, filter)))
    .orderBy(desc(walked.at), desc(walked.requestId))
    .limit(limit)
  if (near.length === limit) return near
  return db
    .select()
    .from(requestRecords)
    .where(and(range, ...wanted))
    .orderBy(sql`${requestRecords.at} + interval '0' desc`, order[1])
    .limit(limit)
}
