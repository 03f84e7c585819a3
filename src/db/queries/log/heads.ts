import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { inPieces } from '../../cursor.ts'
import { approvalEvents, commandEvents } from '../../schema/partitioned/audit-events.ts'

const headsAtOnce = 5_000

export interface LoggedHead {
  readonly writerId: string
  readonly seq: string | null
  readonly hash: string
  /** Of the event at this end; null: it is gone. */
  readonly mac: Buffer | null
}

/** Ends of chains that the log holds, each with its event: a minute of each writer has one, so they are many. Needs a transaction. */
export function loggedHeads(tx: Database): AsyncGenerator<readonly LoggedHead[]> {
  const query = sql`
    select h.writer_id as "writerId", h.seq::text as seq, h.hash, e.mac
    from (select split_part(subject, ':', 1) as writer_id, substring(subject from ':([0-9]{1,15})$')::bigint as seq, hash
      from log_entries where kind = 'audit') h
    left join (select writer_id, seq, mac from admin_approval_events
      union all select writer_id, seq, mac from admin_command_events) e
      on e.writer_id = h.writer_id and e.seq = h.seq`
  return inPieces<LoggedHead>(tx, query, headsAtOnce)
}

/** The newest end of one writer's chain that the log holds. */
export async function loggedHeadOf(
  db: Database,
  writerId: string,
): Promise<{ readonly seq: number; readonly hash: string } | null> {
  const [row] = await db.execute<{ seq: string; hash: string }>(sql`
    select split_part(subject, ':', 2) as seq, hash from log_entries
    where kind = 'audit' and split_part(subject, ':', 1) = ${writerId} order by entry_index desc limit 1`)
  return row === undefined ? null : { seq: Number(row.seq), hash: row.hash }
}

/** Of one event of a writer; null: it is gone. */
export async function macAt(db: Database, writerId: string, seq: number): Promise<Buffer | null> {
  for (const table of [approvalEvents, commandEvents]) {
    const [row] = await db
      .select({ mac: table.mac })
      .from(table)
      .where(and(eq(table.writerId, writerId), eq(table.seq, seq)))
    if (row !== undefined) return row.mac
  }
  return null
}
