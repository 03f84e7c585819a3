import { boolean, customType, integer, jsonb, pgTable, primaryKey, smallint, text } from 'drizzle-orm/pg-core'
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

/** One row per request (§32), partitioned by day: its SQL is the migration `…_request_records`, likewise. */
export const requestRecords = pgTable(
  'request_records',
  {
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
  },
  (t) => [primaryKey({ columns: [t.at, t.requestId] })],
)
