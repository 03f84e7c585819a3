import { index, integer, jsonb, pgTable, primaryKey, text } from 'drizzle-orm/pg-core'
import type { CustomerId } from '../../ids.ts'
import { bytea, createdAt, instant } from '../columns.ts'

/** Billed requests by the key their client chose (§5). Hashes only; a row without a charge is removed. */
export const idempotencyKeys = pgTable(
  'idempotency_keys',
  {
    customerId: text().$type<CustomerId>().notNull(),
    keyHash: bytea().notNull(),
    /** Of body and query. */
    fingerprint: bytea().notNull(),
    /** Also the id of its reservation. */
    requestId: text().notNull(),
    status: text({ enum: ['in_progress', 'completed'] })
      .notNull()
      .default('in_progress'),
    receiptHash: text(),
    usage: jsonb().$type<{
      readonly prompt_tokens: number
      readonly completion_tokens: number
      readonly total_tokens: number
    }>(),
    httpStatus: integer(),
    createdAt: createdAt(),
    completedAt: instant(),
    expiresAt: instant().notNull(),
  },
  (t) => [primaryKey({ columns: [t.customerId, t.keyHash] }), index().on(t.expiresAt)],
)
