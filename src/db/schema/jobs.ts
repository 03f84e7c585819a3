import { sql } from 'drizzle-orm'
import { index, integer, jsonb, pgTable, primaryKey, text, unique } from 'drizzle-orm/pg-core'
import type { CommandId, CustomerId, NodeId, RequestId, RuntimeId } from '../../ids.ts'
import type { EnvelopeBody } from '../../protocol/wire/inference/job.ts'
import { bytea, createdAt, instant } from '../columns.ts'

type Envelope = (typeof EnvelopeBody)['static']

/**
 * A private job; the row is the truth, its chart only what one gateway does with it at the moment. `status` values are
 * the chart's resting states.
 */
export const privateJobs = pgTable(
  'private_jobs',
  {
    commandId: text().$type<CommandId>().primaryKey(),
    jobId: text().notNull(),
    /** What the customer sealed for: their own job id, or '' where they sent none. */
    sealedJobId: text().notNull(),
    customerId: text().$type<CustomerId>().notNull(),
    nodeId: text().$type<NodeId>().notNull(),
    modelId: text().notNull(),
    upstreamModelId: text().notNull(),
    runtimeId: text().$type<RuntimeId>().notNull(),
    /** SHA-256 of the create request; the same again is the same job. */
    fingerprint: bytea().notNull(),
    encryptedRequest: jsonb().$type<Envelope>().notNull(),
    encryptedResponse: jsonb().$type<Envelope>(),
    status: text({
      enum: ['queued', 'dispatched', 'running', 'completed', 'failed', 'expired', 'cancelled'],
    }).notNull(),
    /** Dispatches that were begun. */
    attempt: integer().notNull().default(0),
    /** Of the attempt that runs or comes next. */
    requestId: text().$type<RequestId>().notNull(),
    errorCode: text(),
    receiptHash: text(),
    /** When a gateway should look at it next: now, after a pause, or when the lease of the one that holds it has run out. */
    dueAt: instant().notNull(),
    /** Fences late writers; never leaves the gateway. */
    leaseId: text(),
    deadlineAt: instant().notNull(),
    createdAt: createdAt(),
    completedAt: instant(),
  },
  (t) => [
    unique().on(t.customerId, t.jobId),
    unique().on(t.customerId, t.fingerprint),
    // Finished rows stand in none of the first three: claims and counts do not slow down as the table grows.
    index('private_jobs_due').on(t.nodeId, t.dueAt).where(sql`completed_at is null`),
    index('private_jobs_deadline').on(t.deadlineAt).where(sql`completed_at is null`),
    index('private_jobs_open').on(t.customerId).where(sql`completed_at is null`),
    index('private_jobs_ended').on(t.completedAt).where(sql`completed_at is not null`),
    index('private_jobs_recent').on(t.createdAt),
  ],
)

/** Ephemeral keys seen, 30 days (§10): an envelope is good once per node. */
export const envelopeReplays = pgTable(
  'envelope_replays',
  {
    nodeId: text().$type<NodeId>().notNull(),
    publicKeyHash: bytea().notNull(),
    commandId: text().$type<CommandId>().notNull(),
    createdAt: createdAt(),
  },
  (t) => [primaryKey({ columns: [t.nodeId, t.publicKeyHash] }), index().on(t.createdAt)],
)
