import { and, eq, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { approvalEvents, commandEvents } from '../../schema/partitioned/audit-events.ts'

/** Ends of chains that the log holds. */
export async function loggedHeads(
  db: Database,
): Promise<readonly { readonly writerId: string; readonly seq: number; readonly hash: string }[]> {
  const rows = await db.execute<{ writerId: string; seq: string; hash: string }>(sql`
    select split_part(subject, ':', 1) as "writerId", split_part(subject, ':', 2) as seq, hash
    from log_entries where kind = 'audit' order by entry_index`)
  return rows.map(({ writerId, seq, hash }) => ({ writerId, seq: Number(seq), hash }))
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
