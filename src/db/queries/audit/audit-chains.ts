import { and, asc, desc, eq, gt, lte, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { auditChains, auditTombstones } from '../../schema/audit.ts'
import { approvalEvents, commandEvents } from '../../schema/partitioned/audit-events.ts'
import type { ApprovalEventRow, CommandEventRow } from './audit-events.ts'

export type ChainHead = typeof auditChains.$inferSelect
export type Tombstone = typeof auditTombstones.$inferSelect

/** The writer's head, held until the transaction ends: the next event of this writer waits for this one's commit. */
export async function lockHead(tx: Database, writerId: string): Promise<ChainHead | null> {
  const [head] = await tx.select().from(auditChains).where(eq(auditChains.writerId, writerId)).for('update')
  return head ?? null
}

/** The ordinal of the next new writer; held until the transaction ends, so that no two are the same and none is left out. */
export async function nextOrdinal(tx: Database): Promise<number> {
  await tx.execute(sql`select pg_advisory_xact_lock(7413, 72)`)
  const [last] = await tx
    .select({ ordinal: auditChains.ordinal })
    .from(auditChains)
    .orderBy(desc(auditChains.ordinal))
    .limit(1)
  return (last?.ordinal ?? 0) + 1
}

/** Of one transaction, in the database's own words. */
export interface TransactionId {
  /** Unique while the server runs: after a crash it may give the number of what was lost to another transaction. */
  readonly id: string
  /** When the server started, as it writes it. */
  readonly server: string
}

/** Resolves with the transaction that it was written in. */
export async function saveHead(tx: Database, head: ChainHead): Promise<TransactionId> {
  const { writerId: _, ...changes } = head
  const [row] = await tx
    .insert(auditChains)
    .values(head)
    .onConflictDoUpdate({ target: auditChains.writerId, set: changes })
    .returning({
      id: sql<string>`pg_current_xact_id()::text`,
      server: sql<string>`extract(epoch from pg_postmaster_start_time())::text`,
    })
  if (row === undefined) throw new Error('a head that was not written')
  return row
}

/**
 * True where the database knows that this transaction, which has ended, changed nothing. One that it has never begun (a
 * restored database) and one that it has forgotten (hundreds of millions ago) are not known to have been rolled back.
 */
export async function wasRolledBack(tx: Database, { id }: TransactionId): Promise<boolean> {
  const [row] = await tx.execute<{ rolledBack: boolean | null }>(sql`
    select case when ${id}::xid8 < pg_snapshot_xmax(pg_current_snapshot()) then pg_xact_status(${id}::xid8) = 'aborted' end as "rolledBack"`)
  return row?.rolledBack === true
}

/** The server was started anew since: what it had not written to its disk by then is gone. */
export async function wasRestarted(tx: Database, { server }: TransactionId): Promise<boolean> {
  const [row] = await tx.execute<{ server: string }>(
    sql`select extract(epoch from pg_postmaster_start_time())::text as server`,
  )
  return row?.server !== server
}

export async function insertApprovalEvent(tx: Database, event: ApprovalEventRow): Promise<void> {
  await tx.insert(approvalEvents).values(event)
}

export async function insertCommandEvent(tx: Database, event: CommandEventRow): Promise<void> {
  await tx.insert(commandEvents).values(event)
}

/** In the order in which they were made. */
export async function readHeads(db: Database): Promise<readonly ChainHead[]> {
  return db.select().from(auditChains).orderBy(asc(auditChains.ordinal))
}

export async function readTombstones(db: Database): Promise<readonly Tombstone[]> {
  return db.select().from(auditTombstones).orderBy(asc(auditTombstones.writerId), asc(auditTombstones.seq))
}

/** Events of one writer with `after` < seq ≤ `upTo`, in their order. */
export async function chainEvents(
  db: Database,
  writerId: string,
  after: number,
  upTo: number,
): Promise<readonly (ApprovalEventRow | CommandEventRow)[]> {
  const within = (table: typeof approvalEvents | typeof commandEvents) =>
    and(eq(table.writerId, writerId), gt(table.seq, after), lte(table.seq, upTo))
  const approvals = await db.select().from(approvalEvents).where(within(approvalEvents))
  const commands = await db.select().from(commandEvents).where(within(commandEvents))
  return [...approvals, ...commands].sort((a, b) => a.seq - b.seq)
}

/** How many events there are of each writer, whether it is known or not, and the last of them. */
export async function countByWriter(
  db: Database,
): Promise<readonly { readonly writerId: string; readonly events: number; readonly lastSeq: number }[]> {
  return db.execute<{ writerId: string; events: number; lastSeq: number }>(sql`
    select writer_id as "writerId", sum(events)::int as events, max(last_seq)::float8 as "lastSeq" from (
      select writer_id, count(*) as events, max(seq) as last_seq from admin_approval_events group by writer_id
      union all
      select writer_id, count(*), max(seq) from admin_command_events group by writer_id) e
    group by writer_id order by writer_id`)
}

/** The same rows for the whole transaction, and no purge while it lasts; false: a purge runs. */
export async function holdChains(tx: Database): Promise<boolean> {
  await tx.execute(sql`set transaction isolation level repeatable read read only`)
  const [row] = await tx.execute<{ held: boolean }>(sql`select pg_try_advisory_xact_lock_shared(7413, 73) as held`)
  return row?.held === true
}
