import type { TerminalJobStatus, WebhookEvent } from '../../protocol/wire/inference/job.ts'
import { isoTime } from '../../time.ts'

export interface EndedJob {
  readonly customerId: string
  readonly jobId: string
  readonly nodeId: string
  readonly modelId: string
  readonly status: TerminalJobStatus
  readonly receiptHash: string | null
  readonly createdAt: Date
  readonly completedAt: Date
}

/** The bytes of a job's one event (§11): thin, without ciphertext. Written once, sent by every attempt. */
export function webhookEventText(job: EndedJob): string {
  const completedAt = isoTime(job.completedAt)
  const event: WebhookEvent = {
    type: `private_job.${job.status}`,
    timestamp: completedAt,
    data: {
      customer_id: job.customerId,
      job_id: job.jobId,
      node_id: job.nodeId,
      model_id: job.modelId,
      status: job.status,
      receipt_hash: job.receiptHash,
      created_at: isoTime(job.createdAt),
      completed_at: completedAt,
    },
  }
  return JSON.stringify(event)
}
