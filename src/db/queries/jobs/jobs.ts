import { and, count, desc, eq, getTableColumns, inArray, isNull, notInArray, type SQL, sql } from 'drizzle-orm'
import type { CommandId, CustomerId, NodeId, RequestId } from '../../../ids.ts'
import { arrayOf } from '../../arrays.ts'
import type { Database } from '../../client.ts'
import type { Executor } from '../../prepared.ts'
import { envelopeReplays, privateJobs } from '../../schema/jobs.ts'

export type JobRow = typeof privateJobs.$inferSelect
export type NewJob = Omit<
  typeof privateJobs.$inferInsert,
  'status' | 'attempt' | 'encryptedResponse' | 'errorCode' | 'receiptHash' | 'leaseId' | 'completedAt'
>
type Ended = 'completed' | 'failed' | 'expired' | 'cancelled'

const { encryptedRequest: _request, encryptedResponse: _response, ...facts } = getTableColumns(privateJobs)
/** A job without its ciphertexts, which may have 8 MB. */
export type JobFacts = Omit<JobRow, 'encryptedRequest' | 'encryptedResponse'>

const open = isNull(privateJobs.completedAt)
const at = (time: Date) => sql`${time.toISOString()}::timestamptz`

/** One customer's creates one after the other, so that two at once are counted by each other. */
export async function lockJobsOf(tx: Database, customerId: CustomerId): Promise<void> {
  await tx.execute(sql`select pg_advisory_xact_lock(7414, hashtext(${customerId}))`)
}

/** Rejects with 23505 where job id or fingerprint is taken by another job of the customer. */
export async function insertJob(tx: Database, job: NewJob): Promise<JobFacts> {
  const [row] = await tx
    .insert(privateJobs)
    .values({ ...job, status: 'queued' })
    .returning(facts)
  if (row === undefined) throw new Error('a job was not inserted')
  return row
}

export async function isJobIdTaken(tx: Database, customerId: CustomerId, jobId: string): Promise<boolean> {
  const [row] = await tx
    .select({ commandId: privateJobs.commandId })
    .from(privateJobs)
    .where(and(eq(privateJobs.customerId, customerId), eq(privateJobs.jobId, jobId)))
  return row !== undefined
}

/** False: the key was used before for this node. */
export async function insertReplay(tx: Database, nodeId: NodeId, publicKeyHash: Buffer, commandId: CommandId) {
  const made = await tx
    .insert(envelopeReplays)
    .values({ nodeId, publicKeyHash, commandId })
    .onConflictDoNothing()
    .returning({ commandId: envelopeReplays.commandId })
  return made.length > 0
}

export async function countOpenJobs(tx: Database, of: { customerId: CustomerId } | { nodeId: NodeId }) {
  const whose = 'customerId' in of ? eq(privateJobs.customerId, of.customerId) : eq(privateJobs.nodeId, of.nodeId)
  const [row] = await tx.select({ jobs: count() }).from(privateJobs).where(and(whose, open))
  return row?.jobs ?? 0
}

export async function jobByFingerprint(db: Database, customerId: CustomerId, fingerprint: Buffer) {
  const same = and(eq(privateJobs.customerId, customerId), eq(privateJobs.fingerprint, fingerprint))
  const [row] = await db.select(facts).from(privateJobs).where(same)
  return row ?? null
}

export async function jobById(db: Database, customerId: CustomerId, jobId: string): Promise<JobRow | null> {
  const own = and(eq(privateJobs.customerId, customerId), eq(privateJobs.jobId, jobId))
  const [row] = await db.select().from(privateJobs).where(own)
  return row ?? null
}

export async function jobByCommand(db: Database, commandId: string): Promise<JobFacts | null> {
  const [row] = await db
    .select(facts)
    .from(privateJobs)
    .where(eq(privateJobs.commandId, commandId as CommandId))
  return row ?? null
}

/** Newest first. */
export async function listJobs(
  db: Database,
  filter: { readonly status: JobRow['status'] | null; readonly customerId: string | null; readonly limit: number },
): Promise<readonly JobFacts[]> {
  return db
    .select(facts)
    .from(privateJobs)
    .where(
      and(
        filter.status === null ? undefined : eq(privateJobs.status, filter.status),
        filter.customerId === null ? undefined : eq(privateJobs.customerId, filter.customerId as CustomerId),
      ),
    )
    .orderBy(desc(privateJobs.createdAt), desc(privateJobs.commandId))
    .limit(filter.limit)
}

/** How many jobs of a node may be taken now. */
export interface NodeRoom {
  readonly nodeId: NodeId
  readonly free: number
  /** False: only what it was given before. */
  readonly takesNew: boolean
}

/** What an answer must fit, without the ciphertext: as many as run at once may have 8 MB each. */
const sealedFor = {
  keyId: sql<string>`${privateJobs.encryptedRequest} ->> 'key_id'`,
  clientPublicKey: sql<string>`${privateJobs.encryptedRequest} ->> 'client_public_key_x25519'`,
  ciphertextChars: sql<number>`length(${privateJobs.encryptedRequest} ->> 'ciphertext')`,
}

export type ClaimedJob = JobFacts & {
  readonly leaseId: string
  readonly keyId: string
  readonly clientPublicKey: string
  readonly ciphertextChars: number
}

export interface JobClaim {
  readonly room: readonly NodeRoom[]
  /** Of all nodes together. */
  readonly limit: number
  readonly now: Date
  readonly leaseUntil: Date
}

/**
 * Takes due jobs of these nodes, the longest due first, under a fresh lease each. A queued one becomes `dispatched`, with the next attempt, before
 * its node hears of it. Jobs of nodes that cannot be reached from here are not even looked at.
 */
export async function claimJobs(
  db: Database,
  { room, limit, now, leaseUntil }: JobClaim,
): Promise<readonly ClaimedJob[]> {
  if (room.length === 0) return []
  // Three parameters, whatever the number of nodes: thousands would be prepared, bound and planned anew each second.
  const wanted = sql.join(
    [
      arrayOf(
        'text',
        room.map(({ nodeId }) => nodeId),
      ),
      arrayOf(
        'numeric',
        room.map(({ free }) => free),
      ),
      arrayOf(
        'boolean',
        room.map(({ takesNew }) => takesNew),
      ),
    ],
    sql`, `,
  )
  const queued = sql`${privateJobs.status} = 'queued'`
  const rows = await db
    .update(privateJobs)
    .set({
      leaseId: sql`gen_random_uuid()::text`,
      dueAt: leaseUntil,
      attempt: sql`${privateJobs.attempt} + case when ${queued} then 1 else 0 end`,
      status: sql`case when ${queued} then 'dispatched' else ${privateJobs.status} end`,
    })
    .where(
      sql`${privateJobs.commandId} = any(array(
        select due.command_id from unnest(${wanted}) as room(node_id, free, takes_new) cross join lateral (
          select j.command_id, j.due_at from private_jobs j
          where j.node_id = room.node_id and j.completed_at is null and j.due_at <= ${at(now)}
            and j.deadline_at > ${at(now)} and (room.takes_new or j.status <> 'queued')
          order by j.due_at limit room.free::int for update skip locked) due
        order by due.due_at limit ${limit}))`,
    )
    .returning({ ...facts, ...sealedFor })
  return rows as readonly ClaimedJob[]
}

/** null: the job is gone. */
export async function encryptedRequestOf(
  db: Database,
  commandId: CommandId,
): Promise<JobRow['encryptedRequest'] | null> {
  const [row] = await db
    .select({ envelope: privateJobs.encryptedRequest })
    .from(privateJobs)
    .where(eq(privateJobs.commandId, commandId))
  return row?.envelope ?? null
}

const held = (commandId: CommandId, leaseId: string) =>
  and(eq(privateJobs.commandId, commandId), eq(privateJobs.leaseId, leaseId), open)

/** The leases that are still ours, each prolonged. */
export async function renewJobLeases(db: Database, leaseIds: readonly string[], until: Date): Promise<Set<string>> {
  if (leaseIds.length === 0) return new Set()
  const rows = await db
    .update(privateJobs)
    .set({ dueAt: until })
    .where(and(inArray(privateJobs.leaseId, [...leaseIds]), open))
    .returning({ leaseId: privateJobs.leaseId })
  return new Set(rows.map(({ leaseId }) => leaseId ?? ''))
}

/** False, here and below: the lease is no longer ours, nothing was written. */
export async function markRunning(db: Database, commandId: CommandId, leaseId: string): Promise<boolean> {
  return changed(db, held(commandId, leaseId), { status: 'running' })
}

/** Back to the queue, for the next attempt. */
export async function requeueJob(
  db: Database,
  commandId: CommandId,
  leaseId: string,
  next: { readonly dueAt: Date; readonly requestId: RequestId },
): Promise<boolean> {
  return changed(db, held(commandId, leaseId), { ...next, status: 'queued', leaseId: null })
}

/** Given up without a result: the next to claim it goes on with the same attempt. */
export async function releaseJob(db: Database, commandId: CommandId, leaseId: string, dueAt: Date): Promise<boolean> {
  return changed(db, held(commandId, leaseId), { dueAt, leaseId: null })
}

async function changed(
  db: Database,
  where: SQL | undefined,
  values: Partial<typeof privateJobs.$inferInsert>,
): Promise<boolean> {
  const rows = await db.update(privateJobs).set(values).where(where).returning({ commandId: privateJobs.commandId })
  return rows.length > 0
}

export interface JobEnd {
  readonly status: Ended
  readonly completedAt: Date
  readonly errorCode?: string
  readonly receiptHash?: string
  readonly encryptedResponse?: NonNullable<JobRow['encryptedResponse']>
}

/**
 * The only write that enters a terminal state. `leaseId` is null for an operator's action, which needs no lease.
 * Returns null if nothing was written.
 */
export async function endJob(
  tx: Database,
  commandId: CommandId,
  leaseId: string | null,
  end: JobEnd,
): Promise<JobFacts | null> {
  const which = leaseId === null ? and(eq(privateJobs.commandId, commandId), open) : held(commandId, leaseId)
  const [row] = await tx
    .update(privateJobs)
    .set({ ...end, leaseId: null, dueAt: end.completedAt })
    .where(which)
    .returning(facts)
  return row ?? null
}

/** Whether the deadline of an unfinished job has passed. */
export async function isAnyOverdue(db: Executor, now: Date): Promise<boolean> {
  const found = await db.execute(
    sql`select from private_jobs j where j.completed_at is null and j.deadline_at <= ${at(now)} limit 1`,
  )
  return found.length > 0
}

/** Expires unfinished jobs whose deadline has passed, at most `limit`. */
export async function expireJobs(tx: Database, now: Date, limit: number): Promise<readonly JobFacts[]> {
  return tx
    .update(privateJobs)
    .set({ status: 'expired', completedAt: now, leaseId: null, dueAt: now })
    .where(
      sql`${privateJobs.commandId} = any(array(
        select j.command_id from private_jobs j where j.completed_at is null and j.deadline_at <= ${at(now)}
        order by j.deadline_at limit ${limit} for update skip locked))`,
    )
    .returning(facts)
}

/** Wakes the pollers of every gateway, which then read the rows. */
export async function announceDueWork(db: Database, channel: string, what: string): Promise<void> {
  await db.execute(sql`select pg_notify(${channel}, ${what})`)
}

/** Counts open jobs by status, without those in `except`. */
export async function countJobsByStatus(
  db: Database,
  except: readonly string[] = [],
): Promise<Readonly<Record<string, number>>> {
  const rows = await db
    .select({ status: privateJobs.status, jobs: count() })
    .from(privateJobs)
    .where(and(open, notInArray(privateJobs.commandId, except as CommandId[])))
    .groupBy(privateJobs.status)
  return Object.fromEntries(rows.map(({ status, jobs }) => [status, jobs]))
}
