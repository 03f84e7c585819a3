import { and, eq, getViewSelectedFields, gte, lt, lte, sql } from 'drizzle-orm'
import { minuteMs } from '../../../time.ts'
import type { Database } from '../../client.ts'
import { requestRecords } from '../../schema/partitioned/request-records.ts'

export type { FailedTry } from '../../schema/partitioned/request-records.ts'

const { groupMinute, groupOldest, groupNewest, ...columns } = getViewSelectedFields(requestRecords)
type Shown = typeof requestRecords.$inferSelect
export type RequestRecord = Omit<Shown, Extract<keyof Shown, `group${string}`>>

/** `failed`: ended with a code, though the client had not left; `4xx` and `5xx`: by its status, 499 (the client left) in neither. */
export const requestOutcomes = ['failed', '4xx', '5xx'] as const
export type RequestOutcome = (typeof requestOutcomes)[number]

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
  readonly outcome: RequestOutcome | null
  /** One of its tags. */
  readonly tag: string | null
}

/** Where a page ends: the next one begins behind it. */
export interface RequestPlace {
  readonly at: Date
  readonly requestId: string
}

/** Makes the days of the range that are not there, and drops those that ended before `keepFrom`; how many were dropped. */
export async function keepRequestRecords(db: Database, from: Date, until: Date, keepFrom: Date): Promise<number> {
  const [row] = await db.execute<{ dropped: number }>(sql`select request_records_keep(
    ${from.toISOString()}::timestamptz, ${until.toISOString()}::timestamptz, ${keepFrom.toISOString()}::timestamptz) as dropped`)
  return row?.dropped ?? 0
}

/** By its id and the moment that the id names, which finds its groups. null: no such row. */
export async function getRequestRecord(db: Database, { at, requestId }: RequestPlace): Promise<RequestRecord | null> {
  const minuteAt = Math.floor(at.getTime() / minuteMs) * minuteMs
  const groups = and(
    eq(groupMinute, new Date(minuteAt)),
    lte(groupOldest, at),
    gte(groupNewest, at),
    lt(groupNewest, new Date(minuteAt + minuteMs)),
  )
  const [row] = await db
    .select(columns)
    .from(requestRecords)
    .where(and(groups, eq(columns.requestId, requestId)))
    .limit(1)
  return row ?? null
}
