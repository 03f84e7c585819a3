import { and, count, desc, eq, gt, inArray, notInArray, sql } from 'drizzle-orm'
import type { CommandId, CustomerId, WebhookId } from '../../../ids.ts'
import type { Database } from '../../client.ts'
import { customers } from '../../schema/accounts.ts'
import { retiredWebhookSecrets, webhookDeliveries } from '../../schema/webhooks.ts'

export type WebhookRow = typeof webhookDeliveries.$inferSelect
type Status = NonNullable<WebhookRow['status']>

export async function insertWebhook(
  tx: Database,
  webhook: Pick<WebhookRow, 'webhookId' | 'commandId' | 'jobId' | 'customerId' | 'url'>,
): Promise<void> {
  await tx.insert(webhookDeliveries).values(webhook)
}

export async function webhookOf(db: Database, commandId: CommandId): Promise<WebhookRow | null> {
  const [row] = await db.select().from(webhookDeliveries).where(eq(webhookDeliveries.commandId, commandId))
  return row ?? null
}

export async function getWebhook(db: Database, webhookId: string): Promise<WebhookRow | null> {
  const [row] = await db
    .select()
    .from(webhookDeliveries)
    .where(eq(webhookDeliveries.webhookId, webhookId as WebhookId))
  return row ?? null
}

/**
 * Makes the event of an ended job due, with the bytes that every attempt sends. Returns false if the job has no
 * webhook.
 */
export async function raiseWebhook(tx: Database, commandId: CommandId, body: string, now: Date): Promise<boolean> {
  const rows = await tx
    .update(webhookDeliveries)
    .set({ status: 'pending', body, dueAt: now })
    .where(and(eq(webhookDeliveries.commandId, commandId), sql`${webhookDeliveries.status} is null`))
    .returning({ webhookId: webhookDeliveries.webhookId })
  return rows.length > 0
}

export type ClaimedWebhook = WebhookRow & { readonly leaseId: string; readonly body: string }

/**
 * Takes due deliveries. The attempt is counted before it is made; one whose gateway died (`delivering`, lease run out)
 * is made again under the same number.
 */
export async function claimWebhooks(
  db: Database,
  { now, leaseUntil, limit }: { readonly now: Date; readonly leaseUntil: Date; readonly limit: number },
): Promise<readonly ClaimedWebhook[]> {
  const rows = await db
    .update(webhookDeliveries)
    .set({
      leaseId: sql`gen_random_uuid()::text`,
      status: 'delivering',
      dueAt: leaseUntil,
      lastAttemptAt: now,
      attempts: sql`${webhookDeliveries.attempts} + case when ${webhookDeliveries.status} = 'delivering' then 0 else 1 end`,
    })
    .where(
      sql`${webhookDeliveries.webhookId} = any(array(
        select w.webhook_id from webhook_deliveries w
        where w.due_at is not null and w.due_at <= ${now.toISOString()}::timestamptz
        order by w.due_at limit ${limit} for update skip locked))`,
    )
    .returning()
  return rows as readonly ClaimedWebhook[]
}

export interface DeliveryRecord {
  readonly status: Exclude<Status, 'pending' | 'delivering'>
  readonly lastError: string | null
  /** null if no further attempt follows. */
  readonly dueAt: Date | null
  readonly deliveredAt: Date | null
}

/** Returns false if another gateway has the lease, so that nothing was written. */
export async function recordDelivery(
  db: Database,
  webhookId: WebhookId,
  leaseId: string,
  record: DeliveryRecord,
): Promise<boolean> {
  const rows = await db
    .update(webhookDeliveries)
    .set({ ...record, leaseId: null })
    .where(and(eq(webhookDeliveries.webhookId, webhookId), eq(webhookDeliveries.leaseId, leaseId)))
    .returning({ webhookId: webhookDeliveries.webhookId })
  return rows.length > 0
}

/** Starts the deliveries of the same event again. Returns null if its state does not allow that. */
export async function rearmWebhook(db: Database, webhookId: string, now: Date): Promise<WebhookRow | null> {
  const over = inArray(webhookDeliveries.status, ['retry_scheduled', 'delivered', 'failed', 'disabled'])
  const [row] = await db
    .update(webhookDeliveries)
    .set({ status: 'pending', dueAt: now, attempts: 0, lastError: null, deliveredAt: null })
    .where(and(eq(webhookDeliveries.webhookId, webhookId as WebhookId), over))
    .returning()
  return row ?? null
}

/** Newest first. */
export async function listWebhooks(
  db: Database,
  filter: { readonly status: Status | null; readonly customerId: string | null; readonly limit: number },
): Promise<readonly WebhookRow[]> {
  return db
    .select()
    .from(webhookDeliveries)
    .where(
      and(
        filter.status === null ? undefined : eq(webhookDeliveries.status, filter.status),
        filter.customerId === null ? undefined : eq(webhookDeliveries.customerId, filter.customerId as CustomerId),
      ),
    )
    .orderBy(desc(webhookDeliveries.createdAt), desc(webhookDeliveries.webhookId))
    .limit(filter.limit)
}

/** The sealed secrets, newest first: the customer's current one, and the one that it replaced within the overlap. */
export async function webhookSecretsOf(db: Database, customerId: CustomerId, now: Date): Promise<readonly Buffer[]> {
  const [[current], retired] = await Promise.all([
    db.select({ sealed: customers.webhookSecretSealed }).from(customers).where(eq(customers.customerId, customerId)),
    db
      .select({ sealed: retiredWebhookSecrets.secretSealed })
      .from(retiredWebhookSecrets)
      .where(and(eq(retiredWebhookSecrets.customerId, customerId), gt(retiredWebhookSecrets.expiresAt, now)))
      .orderBy(desc(retiredWebhookSecrets.createdAt)),
  ])
  return [...(current === undefined ? [] : [current.sealed]), ...retired.map(({ sealed }) => sealed)]
}

/**
 * The replaced secret keeps signing until `expiresAt`. At most one older secret stays, so that headers have a bound.
 */
export async function retireWebhookSecret(
  tx: Database,
  retired: { readonly customerId: CustomerId; readonly secretSealed: Buffer; readonly expiresAt: Date },
): Promise<void> {
  await tx.delete(retiredWebhookSecrets).where(eq(retiredWebhookSecrets.customerId, retired.customerId))
  await tx.insert(retiredWebhookSecrets).values(retired)
}

/** Deliveries that have not ended, without `except`. */
export async function countDeliveriesByStatus(
  db: Database,
  except: readonly string[],
): Promise<Readonly<Record<string, number>>> {
  const rows = await db
    .select({ status: webhookDeliveries.status, deliveries: count() })
    .from(webhookDeliveries)
    .where(
      and(
        inArray(webhookDeliveries.status, ['pending', 'delivering', 'retry_scheduled']),
        notInArray(webhookDeliveries.webhookId, except as WebhookId[]),
      ),
    )
    .groupBy(webhookDeliveries.status)
  return Object.fromEntries(rows.map(({ status, deliveries }) => [status, deliveries]))
}
