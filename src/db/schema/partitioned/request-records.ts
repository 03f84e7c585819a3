import { boolean, customType, integer, jsonb, pgView, smallint, text } from 'drizzle-orm/pg-core'
import { instant } from '../../columns.ts'

/** One call of a node that did not serve its request. */
export interface FailedTry {
  readonly node_id: string
  readonly code: string
  /** From the start of the request. */
  readonly started_ms: number
  readonly duration_ms: number
}

const wei = customType<{ data: string }>({ dataType: () => 'numeric(78, 0)' })

/**
 * One row per request (§32), as the database shows them: it keeps them in groups (`request_groups`, partitioned by day), of
 * which each row says what it needs to be left out of a search. Their SQL is the migration `…_request_groups`, likewise.
 */
export const requestRecords = pgView('request_records', {
  groupMinute: instant().notNull(),
  groupOldest: instant().notNull(),
  groupNewest: instant().notNull(),
  requestId: text().notNull(),
  /** That of the id. */
  at: instant().notNull(),
  customerId: text().notNull(),
  keyId: text(),
  operation: text().notNull(),
  stream: boolean().notNull(),
  model: text(),
  nodeId: text(),
  tries: smallint().notNull(),
  queueMs: integer().notNull(),
  loadMs: integer(),
  sentMs: integer(),
  ttftMs: integer(),
  durationMs: integer().notNull(),
  promptTokens: integer(),
  completionTokens: integer(),
  cachePercent: smallint(),
  status: smallint().notNull(),
  code: text(),
  costWei: wei(),
  receiptHash: text(),
  failedTries: jsonb().$type<readonly FailedTry[]>(),
  tags: text(),
}).existing()
