import { sql } from 'drizzle-orm'
import { index, integer, pgTable, text } from 'drizzle-orm/pg-core'
import type { CommandId, CustomerId, WebhookId } from '../../ids.ts'
import { bytea, createdAt, instant } from '../columns.ts'

/** The one event of a job and its deliveries (§11); `status` values are the chart's resting states. */
export const webhookDeliveries = pgTable(
  'webhook_deliveries',
  {
    webhookId: text().$type<WebhookId>().primaryKey(),
    commandId: text().$type<CommandId>().notNull().unique(),
    jobId: text().notNull(),
    customerId: text().$type<CustomerId>().notNull(),
    url: text().notNull(),
    /** null: the job has not ended. */
    status: text({ enum: ['pending', 'delivering', 'retry_scheduled', 'delivered', 'failed', 'disabled'] }),
    /** Frozen: every attempt sends the same bytes. null until the job has ended. */
    body: text(),
    /** Started ones. */
    attempts: integer().notNull().default(0),
    lastError: text(),
    /** The next attempt; while `delivering`, when the lease runs out. null: nothing is due. */
    dueAt: instant(),
    leaseId: text(),
    lastAttemptAt: instant(),
    deliveredAt: instant(),
    createdAt: createdAt(),
  },
  (t) => [
    index('webhook_deliveries_due').on(t.dueAt).where(sql`due_at is not null`),
    index('webhook_deliveries_recent').on(t.createdAt),
  ],
)

/** A replaced secret signs beside the new one for 24 h. */
export const retiredWebhookSecrets = pgTable(
  'retired_webhook_secrets',
  {
    customerId: text().$type<CustomerId>().notNull(),
    secretSealed: bytea().notNull(),
    expiresAt: instant().notNull(),
    createdAt: createdAt(),
  },
  (t) => [index().on(t.customerId), index().on(t.expiresAt)],
)
