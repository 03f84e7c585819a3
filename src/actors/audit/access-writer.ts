import type { Database } from '../../db/client.ts'
import { type AccessEventRow, ensureAuditPartitions, insertAccessEvents } from '../../db/queries/audit/audit-events.ts'
import type { Log } from '../../log.ts'
import { GroupWriter } from '../durable/group-writer.ts'

/** Access events, after their responses (§16). */
export type AccessWriter = GroupWriter<AccessEventRow>

export interface AccessWriterOptions {
  readonly db: Database
  readonly log: Log
  /** Events that may wait for the database. */
  readonly queueMax?: number
}

/** About 10 MB; at the 600 requests a minute that one token has, a quarter of an hour without the database. */
const queueMaxDefault = 10_000

export function createAccessWriter({ db, log, queueMax = queueMaxDefault }: AccessWriterOptions): AccessWriter {
  return new GroupWriter<AccessEventRow>({
    name: 'access_events',
    log,
    insert: (events) => insertAccessEvents(db, events),
    // The week may have no partition yet.
    prepare: (event) => ensureAuditPartitions(db, event.createdAt, event.createdAt),
    gatherMs: 0,
    queueMax,
  })
}
