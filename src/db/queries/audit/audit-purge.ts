import { and, eq, sql } from 'drizzle-orm'
import type { Sql } from 'postgres'
import { dayMs } from '../../../time.ts'
import { type Database, sessionOf } from '../../client.ts'
import { auditPurgeRuns, auditTombstones } from '../../schema/audit.ts'
import type { Tombstone } from './audit-chains.ts'

export type { PurgeAsker } from '../../schema/audit.ts'
export type PurgeRun = typeof auditPurgeRuns.$inferSelect

/** What is purged, by the name it has in counts. */
const purgedTables = {
  access: 'admin_access_events',
  command: 'admin_command_events',
  approval: 'admin_approval_events',
} as const
export type PurgedKind = keyof typeof purgedTables
export type PurgeCounts = Readonly<Record<PurgedKind, number>>

/** A partition, attached or on its way out. */
export interface Partition {
  readonly name: string
  readonly from: Date
  readonly until: Date
  /** `pending`: a detachment was begun and not finished. */
  readonly state: 'attached' | 'pending' | 'detached'
}

const weekMs = 7 * dayMs
/** A detachment waits for those who read the table at this moment. */
const detachWaitMs = 600_000

export async function countEligible(db: Database, cutoff: Date): Promise<PurgeCounts> {
  const before = sql`created_at < ${cutoff.toISOString()}::timestamptz`
  const [row] = await db.execute<{ access: number; command: number; approval: number }>(sql`
    select (select count(*) from admin_access_events where ${before})::float8 as access,
      (select count(*) from admin_command_events where ${before})::float8 as command,
      (select count(*) from admin_approval_events where ${before})::float8 as approval`)
  return { access: row?.access ?? 0, command: row?.command ?? 0, approval: row?.approval ?? 0 }
}

/** The last event of each writer before the cutoff: what a purge takes of a chain is its beginning up to there. */
export async function lastBefore(
  tx: Database,
  cutoff: Date,
): Promise<readonly { readonly writerId: string; readonly seq: number; readonly mac: Buffer }[]> {
  const before = sql`created_at < ${cutoff.toISOString()}::timestamptz`
  const rows = await tx.execute<{ writerId: string; seq: number; mac: string }>(sql`
    select distinct on (writer_id) writer_id as "writerId", seq::float8 as seq, encode(mac, 'hex') as mac from (
      select writer_id, seq, mac from admin_approval_events where ${before}
      union all select writer_id, seq, mac from admin_command_events where ${before}) e
    order by writer_id, seq desc`)
  return rows.map(({ writerId, seq, mac }) => ({ writerId, seq, mac: Buffer.from(mac, 'hex') }))
}

export async function insertTombstones(tx: Database, stones: readonly Tombstone[]): Promise<void> {
  if (stones.length > 0) {
    await tx
      .insert(auditTombstones)
      .values([...stones])
      .onConflictDoNothing()
  }
}

export async function insertPurgeRun(tx: Database, run: PurgeRun): Promise<void> {
  await tx.insert(auditPurgeRuns).values(run)
}

export async function openPurgeRuns(db: Database): Promise<readonly PurgeRun[]> {
  return db.select().from(auditPurgeRuns).where(eq(auditPurgeRuns.status, 'running')).orderBy(auditPurgeRuns.startedAt)
}

const purgedColumns = {
  access: auditPurgeRuns.purgedAccess,
  command: auditPurgeRuns.purgedCommand,
  approval: auditPurgeRuns.purgedApproval,
} as const

async function addPurged(tx: Database, runId: string, kind: PurgedKind, removed: number): Promise<void> {
  const column = purgedColumns[kind]
  const name = `purged${kind[0]?.toUpperCase()}${kind.slice(1)}`
  await tx
    .update(auditPurgeRuns)
    .set({ [name]: sql`${column} + ${removed}` })
    .where(eq(auditPurgeRuns.runId, runId))
}

export async function endPurgeRun(tx: Database, runId: string, at: Date): Promise<PurgeRun> {
  const [run] = await tx
    .update(auditPurgeRuns)
    .set({ status: 'done', finishedAt: at })
    .where(and(eq(auditPurgeRuns.runId, runId), eq(auditPurgeRuns.status, 'running')))
    .returning()
  if (run === undefined) throw new Error('the purge has ended already')
  return run
}

/** Oldest first; by their names, which say the Monday they begin with. */
export async function partitionsOf(db: Database, kind: PurgedKind): Promise<readonly Partition[]> {
  const table = purgedTables[kind]
  const rows = await db.execute<{ name: string; state: Partition['state'] }>(sql`
    select c.relname as name,
      case when i.inhrelid is null then 'detached' when i.inhdetachpending then 'pending' else 'attached' end as state
    from pg_class c left join pg_inherits i on i.inhrelid = c.oid
    where c.relkind = 'r' and c.relnamespace = current_schema()::regnamespace
      and c.relname ~ ${`^${table}_p[0-9]{8}$`} order by c.relname`)
  return rows.map(({ name, state }) => {
    const [year, month, day] = [name.slice(-8, -4), name.slice(-4, -2), name.slice(-2)]
    const from = new Date(`${year}-${month}-${day}T00:00:00Z`)
    return { name, state, from, until: new Date(from.getTime() + weekMs) }
  })
}

/** Counts what is in a detached partition, and drops it. */
export function dropPartition(db: Database, runId: string, kind: PurgedKind, { name }: Partition): Promise<void> {
  const table = sql.identifier(name)
  return db.transaction(async (tx) => {
    const [row] = await tx.execute<{ removed: number }>(sql`select count(*)::float8 as removed from ${table}`)
    await tx.execute(sql`drop table ${table}`)
    await addPurged(tx, runId, kind, row?.removed ?? 0)
  })
}

/**
 * Deletes at most `limit` rows of the partition that the cutoff cuts; how many they were. What a purge whose session was lost is still deleting is waited
 * for, and others are taken in its place: 0 says that none is left.
 */
export function deleteBefore(
  db: Database,
  run: Pick<PurgeRun, 'runId' | 'cutoff'>,
  kind: PurgedKind,
  { name }: Partition,
  limit: number,
): Promise<number> {
  const table = sql.identifier(name)
  return db.transaction(async (tx) => {
    const [row] = await tx.execute<{ removed: number }>(sql`
      with gone as (
        delete from ${table} where (created_at, event_id) in (
          select created_at, event_id from ${table} where created_at < ${run.cutoff.toISOString()}::timestamptz
          order by created_at, event_id limit ${limit} for update)
        returning 1)
      select count(*)::int as removed from gone`)
    const removed = row?.removed ?? 0
    if (removed > 0) await addPurged(tx, run.runId, kind, removed)
    return removed
  })
}

/** The connection that holds a purge: locks of a session, and what may run in no transaction. */
export interface PurgeSession {
  /** Rejects if the session was lost and its locks with it: another purge may run now. */
  held(): Promise<void>
  /** Takes the partition out of its table; readers and writers go on meanwhile. */
  detach(kind: PurgedKind, partition: Partition): Promise<void>
}

/**
 * One purge at a time in all gateways, and no check of the chains beside it (which is waited for). null: another purge
 * runs.
 */
export async function asOnlyPurge<T>(client: Sql, work: (session: PurgeSession) => Promise<T>): Promise<T | null> {
  const connection = sessionOf(client)
  try {
    const [lock] = await connection<{ held: boolean; pid: number }[]>`
      select pg_try_advisory_lock(7413, 74) as held, pg_backend_pid() as pid`
    if (lock?.held !== true) return null
    try {
      await connection`select pg_advisory_lock(7413, 73)`
      const held = async () => {
        if ((await pidOf(connection)) !== lock.pid) throw new Error('the session of the purge was lost')
      }
      return await work({
        held,
        detach: async (kind, partition) => {
          await held()
          await detach(connection, purgedTables[kind], partition)
        },
      })
    } finally {
      // Both, whichever were taken, before the next purge may ask; a connection that is gone has freed them.
      await connection`select pg_advisory_unlock_all()`.catch(() => {})
    }
  } finally {
    await connection.end()
  }
}

const pidOf = async (connection: Sql): Promise<number | undefined> =>
  (await connection<{ pid: number }[]>`select pg_backend_pid() as pid`)[0]?.pid

async function detach(connection: Sql, table: string, { name, state }: Partition): Promise<void> {
  const how = state === 'pending' ? 'finalize' : 'concurrently'
  const [before] = await connection<{ value: string }[]>`select current_setting('statement_timeout') as value`
  await connection.unsafe(`set statement_timeout = ${detachWaitMs}`)
  try {
    await connection.unsafe(`alter table "${table}" detach partition "${name}" ${how}`)
  } finally {
    await connection.unsafe(`set statement_timeout = '${before?.value ?? '0'}'`).catch(() => {})
  }
}
