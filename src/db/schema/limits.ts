import { bigint, date, doublePrecision, integer, pgTable, primaryKey, text, timestamp } from 'drizzle-orm/pg-core'
import type { CustomerId } from '../../ids.ts'
import { instant } from '../columns.ts'

/**
 * Pools and leases of §17. A gateway leases a chunk of a pool and spends it without asking. `cap` is what the
 * lease was granted in all, `spent` what its holder last said it had used, `seq` the number of the last message: a late
 * one changes nothing. Written only by the SQL functions `sync_*_lease` of the migrations.
 */
const lease = () => ({
  leaseId: text().notNull(),
  seq: bigint({ mode: 'number' }).notNull(),
  expiresAt: instant().notNull(),
})

/** Logged: a crash of the database must not give a quota back. */
export const quotaDays = pgTable(
  'quota_days',
  {
    customerId: text().$type<CustomerId>().notNull(),
    /** UTC. */
    day: date({ mode: 'string' }).notNull(),
    /** Spent, and leased to be spent; tokens. */
    taken: bigint({ mode: 'number' }).notNull().default(0),
  },
  (t) => [primaryKey({ columns: [t.customerId, t.day] })],
)

export const quotaLeases = pgTable(
  'quota_leases',
  {
    customerId: text().$type<CustomerId>().notNull(),
    day: date({ mode: 'string' }).notNull(),
    cap: bigint({ mode: 'number' }).notNull(),
    spent: bigint({ mode: 'number' }).notNull(),
    ...lease(),
  },
  (t) => [primaryKey({ columns: [t.customerId, t.day, t.leaseId] })],
)

/** Token buckets; `key` names a customer, a hashed address or a hashed admin token. UNLOGGED, as the two below. */
export const rateBuckets = pgTable('rate_buckets', {
  key: text().primaryKey(),
  level: doublePrecision().notNull(),
  /** Microseconds: rounding at every message would refill a busy bucket too fast. */
  at: timestamp({ withTimezone: true, mode: 'date' }).notNull(),
})

export const rateLeases = pgTable(
  'rate_leases',
  {
    key: text().notNull(),
    cap: bigint({ mode: 'number' }).notNull(),
    spent: bigint({ mode: 'number' }).notNull(),
    ...lease(),
  },
  (t) => [primaryKey({ columns: [t.key, t.leaseId] })],
)

export const slotLeases = pgTable(
  'slot_leases',
  {
    customerId: text().$type<CustomerId>().notNull(),
    cap: integer().notNull(),
    /** In use. */
    spent: integer().notNull(),
    ...lease(),
  },
  (t) => [primaryKey({ columns: [t.customerId, t.leaseId] })],
)
