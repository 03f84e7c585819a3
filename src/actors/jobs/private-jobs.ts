import { ownNodeKeys } from '../../db/queries/jobs/job-nodes.ts'
import * as rows from '../../db/queries/jobs/jobs.ts'
import { type WebhookRow, webhookOf } from '../../db/queries/jobs/webhooks.ts'
import { Problem } from '../../errors.ts'
import { encodeBase64Url } from '../../protocol/signing/base64.ts'
import type { JobCreate, JobStatus, NodeKeys } from '../../protocol/wire/inference/job.ts'
import { secondMs } from '../../time.ts'
import type { Access } from '../accounts/access.ts'
import type { Asker, AuditContext, AuditTrail } from '../audit/audit-context.ts'
import { dueWorkChannel } from '../durable/due-work.ts'
import { createSnapshot } from '../durable/snapshot.ts'
import { type CreatedJob, createJob, type JobLimits } from './job-create.ts'
import { followEnd } from './job-end.ts'
import { JobWorker, type JobWorkerOptions, jobWork } from './job-worker.ts'
import type { Webhooks } from './webhooks.ts'

export type { CreatedJob } from './job-create.ts'
export type JobFacts = rows.JobFacts
export type JobRow = rows.JobRow

/** Private jobs (§10): the verbs of the routes, and the worker that carries jobs to their nodes. */
export interface PrivateJobs extends Pick<JobWorker, 'start' | 'stop' | 'wake' | 'running' | 'claims'> {
  /** Throws the refusals that §3 lists for endpoint 6. */
  create(access: Access, body: JobCreate, asker: Asker): Promise<CreatedJob>
  /** Throws `job_not_found`, also if the job belongs to another customer. */
  read(access: Access, jobId: string): Promise<{ readonly job: JobRow; readonly webhook: WebhookRow | null }>
  /** The signed transport keys of one of the customer's nodes. Throws `node_not_found`. */
  nodeKeys(access: Access, nodeId: string): Promise<NodeKeys>
  /** Newest first. */
  list(filter: {
    readonly status: JobStatus | null
    readonly customerId: string | null
    readonly limit: number
  }): Promise<readonly JobFacts[]>
  /** Throws `command_not_found`. */
  command(commandId: string): Promise<JobFacts>
  /**
   * Ends a job at once, even if a gateway works on it. Throws `command_not_found`, and `invalid_state` if the job has
   * ended.
   */
  cancel(commandId: string, audit: AuditContext): Promise<JobFacts>
  /** The number of open jobs by status, counted at most every few seconds. */
  openByStatus(): Promise<Readonly<Record<string, number>>>
}

export interface PrivateJobsOptions extends Omit<JobWorkerOptions, 'pollMs' | 'now'> {
  readonly trail: AuditTrail
  readonly limits: JobLimits
  readonly webhooks: Pick<Webhooks, 'checkUrl'>
  /** Unix ms. */
  readonly now?: () => number
  readonly pollMs?: number
}

const pollMsDefault = secondMs
const countsKeptMs = 5 * secondMs

export function createPrivateJobs(options: PrivateJobsOptions): PrivateJobs {
  const { db, limits, webhooks, trail } = options
  const now = options.now ?? Date.now
  const creation = { db, limits, now, trail, checkUrl: webhooks.checkUrl }
  const worker = new JobWorker({ ...options, now, pollMs: options.pollMs ?? pollMsDefault })
  return {
    start: worker.start,
    stop: worker.stop,
    wake: worker.wake,
    running: worker.running,
    claims: worker.claims,
    create: (access, body, asker) => createJob(creation, access, body, asker),
    read: async (access, jobId) => {
      const job = await rows.jobById(db, access.customerId, jobId)
      if (job === null) throw new Problem('job_not_found')
      return { job, webhook: await webhookOf(db, job.commandId) }
    },
    nodeKeys: (access, nodeId) => readNodeKeys(options, access, nodeId),
    list: (filter) => rows.listJobs(db, filter),
    command: async (commandId) => {
      const job = await rows.jobByCommand(db, commandId)
      if (job === null) throw new Problem('command_not_found')
      return job
    },
    cancel: async (commandId, audit) => {
      const job = await cancelJob(options, commandId, audit, new Date(now()))
      worker.forget(job)
      return job
    },
    openByStatus: createSnapshot(countsKeptMs, () => rows.countJobsByStatus(db)),
  }
}

async function readNodeKeys({ db }: Pick<PrivateJobsOptions, 'db'>, access: Access, nodeId: string): Promise<NodeKeys> {
  const scope = access.policy.nodeScope
  const node = await ownNodeKeys(db, access.customerId, nodeId)
  if (node === null || (scope !== null && !scope.has(nodeId))) throw new Problem('node_not_found')
  if (node.identityKey === null) {
    throw new Problem('node_not_found', { detail: 'The node runs no agent, so it cannot take private jobs' })
  }
  return {
    node_id: node.nodeId,
    identity_public_key_ed25519: encodeBase64Url(node.identityKey),
    keys: node.transportKeys.filter(({ state }) => state !== 'revoked'),
  }
}

async function cancelJob(
  { db, trail }: Pick<PrivateJobsOptions, 'db' | 'trail'>,
  commandId: string,
  audit: AuditContext,
  now: Date,
): Promise<JobFacts> {
  return db.transaction(async (tx) => {
    const found = await rows.jobByCommand(tx, commandId)
    if (found === null) throw new Problem('command_not_found')
    const ended = await rows.endJob(tx, found.commandId, null, { status: 'cancelled', completedAt: now })
    if (ended === null) throw new Problem('invalid_state', { detail: 'The job has ended' })
    await followEnd(tx, ended, null, now)
    // The gateway with the lease hears that the lease is gone and stops asking the node.
    await rows.announceDueWork(tx, dueWorkChannel, `${jobWork}:leases`)
    await trail.record(tx, audit, { targetId: ended.commandId, commandId: ended.commandId })
    return ended
  })
}
