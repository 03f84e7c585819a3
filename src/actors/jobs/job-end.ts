import type { Database } from '../../db/client.ts'
import { announceDueWork, type JobFacts } from '../../db/queries/jobs/jobs.ts'
import { raiseWebhook } from '../../db/queries/jobs/webhooks.ts'
import { insertReceipt, type MarkedReceipt } from '../../db/queries/money/receipts.ts'
import { webhookEventText } from '../../machines/rules/webhook-event.ts'
import { type TerminalJobStatus, terminalJobStatuses } from '../../protocol/wire/inference/job.ts'
import { dueWorkChannel } from '../durable/due-work.ts'
import { webhookWork } from './webhooks.ts'

/**
 * What goes with a terminal state, in the transaction that enters it: the one event of the job and, for a completed one,
 * its one receipt (§10). The code that writes a terminal state calls this for each row that the write returned.
 */
export async function followEnd(tx: Database, job: JobFacts, receipt: MarkedReceipt | null, now: Date): Promise<void> {
  const { status, completedAt } = job
  if (completedAt === null || !isTerminal(status)) throw new Error('the job has not ended')
  if (receipt !== null) await insertReceipt(tx, receipt)
  const raised = await raiseWebhook(tx, job.commandId, webhookEventText({ ...job, status, completedAt }), now)
  if (raised) await announceDueWork(tx, dueWorkChannel, webhookWork)
}

export function isTerminal(status: string): status is TerminalJobStatus {
  return (terminalJobStatuses as readonly string[]).includes(status)
}
