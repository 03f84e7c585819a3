import type { Database } from '../../db/client.ts'
import { type AccessEventRow, ensureAuditPartitions, insertAccessEvents } from '../../db/queries/audit/audit-events.ts'
import type { Log } from '../../log.ts'
import { GroupWriter } from '../durable/group-writer.ts'

/** Writes access events after their responses (§16). */
export type AccessWriter = GroupWriter<AccessEventRow>

export interface AccessWriterOptions {
  readonly db: Database
  readonly log: Log
  /** How many events may wait for the database. */
  readonly queueMax?: number
}

/**
 * About 10 MB. At the 600 requests a minute that one token may send, it lasts a quarter of an hour without the
 * database.
 */
const queueMaxDefault = 10_000

export function createAccessWriter({ db, log, queueMax = queueMaxDefault }: AccessWriterOptions): AccessWriter {
  return new GroupWriter<AccessEventRow>({
    name: 'access_events',
    log,
    insert: (events) => insertAccessEvents(db, events),
    // The partition of this week may not exist yet.
    prepare: (event) => ensureAuditPartitions(db, event.createdAt, event.createdAt),
    gatherMs: 0,
    queueMax,
  })
}
