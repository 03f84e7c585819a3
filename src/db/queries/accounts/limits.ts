import { sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'

/** A lease as its holder states it: absolute numbers since the lease began, so that saying it twice does no harm. */
export interface LeaseMessage {
  readonly leaseId: string
  /** Rises with every message of a lease; an older one that arrives late is ignored. */
  readonly seq: number
  readonly spent: number
  /** `spent` and what is asked for now. */
  readonly need: number
  /** `need` and a reserve. */
  readonly want: number
  /** The lease may not exist yet. */
  readonly fresh: boolean
  /** Give everything back but what is spent. */
  readonly close: boolean
  /** After this without a message the lease ends by itself. */
  readonly ttlMs: number
  /** For how long the holder has been asking the others for their reserves, ms. */
  readonly askingMs: number
}

export interface LeaseState {
  /** What the holder may spend in all. */
  readonly granted: number
  /** Left in the pool. */
  readonly remaining: number
  /** Somebody else holds or may hold a reserve, and was asked for it. */
  readonly others: boolean
  /** Until the pool has one more, ms; 0 where time brings nothing. */
  readonly waitMs: number
}

export interface LimitQueries {
  quota(customerId: string, day: string, quota: number, message: LeaseMessage): Promise<LeaseState | null>
  rate(key: string, capacity: number, perSecond: number, message: LeaseMessage): Promise<LeaseState | null>
  slots(customerId: string, slots: number, message: LeaseMessage): Promise<LeaseState | null>
  /** Removes what ended or is full again. */
  sweep(): Promise<void>
}

const columns = {
  granted: sql<number>`granted::float8`,
  remaining: sql<number>`remaining`,
  others: sql<boolean>`others`,
  waitMs: sql<number>`wait_ms`,
}
const p = sql.placeholder
const statement = sql`${p('leaseId')}, ${p('seq')}, `
const amounts = sql`${p('spent')}, ${p('need')}, ${p('want')}`
/** A full bucket is the same as none; the largest refills within a minute. */
const fullAfter = sql`interval '2 minutes'`
const forgottenAfter = sql`interval '1 hour'`

/** Null where the lease is not known (any more). */
export function limitQueries(db: Database): LimitQueries {
  const quota = db
    .select(columns)
    .from(
      sql`sync_quota_lease(${p('customerId')}, ${p('day')}, ${statement}${p('quota')}, ${amounts}, ${p('fresh')}, ${p('close')}, ${p('ttlMs')}, ${p('askingMs')})`,
    )
    .prepare('sync_quota_lease')
  const rate = db
    .select(columns)
    .from(
      sql`sync_rate_lease(${p('key')}, ${statement}${p('capacity')}, ${p('perSecond')}, ${amounts}, ${p('fresh')}, ${p('close')}, ${p('ttlMs')})`,
    )
    .prepare('sync_rate_lease')
  const slots = db
    .select(columns)
    .from(
      sql`sync_slot_lease(${p('customerId')}, ${statement}${p('slots')}, ${amounts}, ${p('close')}, ${p('ttlMs')}, ${p('askingMs')})`,
    )
    .prepare('sync_slot_lease')
  return {
    quota: async (customerId, day, limit, message) =>
      (await quota.execute({ customerId, day, quota: limit, ...message }))[0] ?? null,
    rate: async (key, capacity, perSecond, message) =>
      (await rate.execute({ key, capacity, perSecond, ...message }))[0] ?? null,
    slots: async (customerId, limit, message) =>
      (await slots.execute({ customerId, slots: limit, ...message }))[0] ?? null,
    sweep: async () => {
      await db.execute(sql`delete from rate_leases where expires_at < now() - ${fullAfter}`)
      await db.execute(sql`delete from slot_leases where expires_at < now() - ${fullAfter}`)
      await db.execute(sql`delete from quota_leases where expires_at < now() - ${forgottenAfter}`)
      await db.execute(sql`delete from rate_buckets b where b.at < now() - ${fullAfter}
        and not exists (select 1 from rate_leases l where l.key = b.key)`)
    },
  }
}
