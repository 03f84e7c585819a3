import type { Role } from '../../actors/accounts/access.ts'
import type { CreatedJob, JobFacts, JobRow } from '../../actors/jobs/private-jobs.ts'
import type { WebhookRow } from '../../actors/jobs/webhooks.ts'
import type {
  CommandRecord,
  JobCreated,
  JobRead,
  WebhookDelivery,
  WebhookRecord,
} from '../../protocol/wire/inference/job.ts'
import { isoTime } from '../../time.ts'

const instant = (at: Date | null) => (at === null ? null : isoTime(at))

/** The status is always `queued`. A read tells the current one. */
export function jobCreatedView({ job, webhookUrl }: CreatedJob): JobCreated {
  return {
    status: 'queued',
    job_id: job.jobId,
    node_id: job.nodeId,
    command_id: job.commandId,
    billing: null,
    ...(webhookUrl === null ? {} : { webhook_url: webhookUrl }),
    created_at: isoTime(job.createdAt),
  }
}

/** While an attempt runs, `dueAt` is the end of its lease, so no next attempt is scheduled. */
const nextAttempt = ({ status, dueAt }: WebhookRow) =>
  status === 'pending' || status === 'retry_scheduled' ? instant(dueAt) : null

const progress = (row: WebhookRow) => ({
  status: row.status,
  attempts: row.attempts,
  last_error: row.lastError,
  next_attempt_at: nextAttempt(row),
  last_attempt_at: instant(row.lastAttemptAt),
  delivered_at: instant(row.deliveredAt),
})

function webhookRecordView(row: WebhookRow): WebhookRecord {
  return { url: row.url, ...progress(row) }
}

export function jobReadView(job: JobRow, webhook: WebhookRow | null): JobRead {
  return {
    job_id: job.jobId,
    node_id: job.nodeId,
    model_id: job.modelId,
    status: job.status,
    encrypted_request: job.encryptedRequest,
    ...(job.encryptedResponse === null ? {} : { encrypted_response: job.encryptedResponse }),
    ...(job.receiptHash === null ? {} : { receipt_hash: job.receiptHash }),
    billing: null,
    webhook: webhook === null ? null : webhookRecordView(webhook),
    created_at: isoTime(job.createdAt),
    ...(job.completedAt === null ? {} : { completed_at: isoTime(job.completedAt) }),
    ...(job.errorCode === null ? {} : { error: { code: job.errorCode } }),
  }
}

/** The owner, which only operators and admins see (§23). */
const owner = (customerId: string, role: Role) => (role === 'viewer' ? {} : { customer_id: customerId })

export function commandView(job: JobFacts, role: Role): CommandRecord {
  return {
    command_id: job.commandId,
    job_id: job.jobId,
    ...owner(job.customerId, role),
    node_id: job.nodeId,
    model_id: job.modelId,
    status: job.status,
    attempt: job.attempt,
    error_code: job.errorCode,
    receipt_hash: job.receiptHash,
    created_at: isoTime(job.createdAt),
    deadline_at: isoTime(job.deadlineAt),
    completed_at: instant(job.completedAt),
  }
}

/** Without the URL, which may contain a secret of the customer. */
export function webhookDeliveryView(row: WebhookRow, role: Role): WebhookDelivery {
  return {
    webhook_id: row.webhookId,
    command_id: row.commandId,
    job_id: row.jobId,
    ...owner(row.customerId, role),
    ...progress(row),
    created_at: isoTime(row.createdAt),
  }
}
