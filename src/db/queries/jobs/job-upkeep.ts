import { and, inArray, lt, sql } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { envelopeReplays, privateJobs } from '../../schema/jobs.ts'
import { webhookDeliveries } from '../../schema/webhooks.ts'

const at = (time: Date) => sql`${time.toISOString()}::timestamptz`

/**
 * Jobs that ended before, with their webhooks, but for those still to be delivered, which go when they are; ephemeral keys
 * seen before `keysBefore`. At most `limit` of each.
 */
export async function deleteOldJobs(
  tx: Database,
  { endedBefore, keysBefore, limit }: { readonly endedBefore: Date; readonly keysBefore: Date; readonly limit: number },
): Promise<number> {
  const gone = await tx
    .delete(privateJobs)
    .where(
      sql`${privateJobs.commandId} = any(array(
        select j.command_id from private_jobs j where j.completed_at is not null and j.completed_at < ${at(endedBefore)}
        order by j.completed_at limit ${limit} for update skip locked))`,
    )
    .returning({ commandId: privateJobs.commandId })
  await tx.delete(webhookDeliveries).where(
    sql`${webhookDeliveries.webhookId} = any(array(
        select w.webhook_id from webhook_deliveries w
        where w.created_at < ${at(endedBefore)} and w.status is not null and w.due_at is null
          and not exists (select 1 from private_jobs j where j.command_id = w.command_id)
        order by w.created_at limit ${limit} for update skip locked))`,
  )
  const old = tx
    .select({ hash: envelopeReplays.publicKeyHash })
    .from(envelopeReplays)
    .where(lt(envelopeReplays.createdAt, keysBefore))
    .limit(limit)
  await tx
    .delete(envelopeReplays)
    .where(and(lt(envelopeReplays.createdAt, keysBefore), inArray(envelopeReplays.publicKeyHash, old)))
  return gone.length
}
