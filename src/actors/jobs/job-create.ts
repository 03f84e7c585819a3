import type { Database } from '../../db/client.ts'
import { ownNodeKeys, runtimeWith } from '../../db/queries/jobs/job-nodes.ts'
import * as rows from '../../db/queries/jobs/jobs.ts'
import { insertWebhook, webhookOf } from '../../db/queries/jobs/webhooks.ts'
import { listModelEntries } from '../../db/queries/pool/model-entries.ts'
import { Problem } from '../../errors.ts'
import { type CommandId, newId, type RuntimeId } from '../../ids.ts'
import { policyNames } from '../../machines/rules/model-policy.ts'
import { withLatest } from '../../protocol/dialects/ollama/model-tags.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { decodeBase64Url } from '../../protocol/signing/base64.ts'
import { envelopeFault, requestAadHash } from '../../protocol/signing/envelope.ts'
import type { JobCreate } from '../../protocol/wire/inference/job.ts'
import type { TransportKey } from '../../protocol/wire/nodes/agent.ts'
import type { Access } from '../accounts/access.ts'
import type { Asker, AuditTrail } from '../audit/audit-context.ts'
import { dueWorkChannel } from '../durable/due-work.ts'
import { catalogueOf } from '../pool/nodes/routing-table.ts'
import { jobWork } from './job-worker.ts'

export interface JobLimits {
  readonly openPerCustomerMax: number
  readonly openPerNodeMax: number
  readonly ttlMs: number
}

export interface CreatedJob {
  readonly job: rows.JobFacts
  readonly webhookUrl: string | null
  /** True if the same request has already made this job. */
  readonly replayed: boolean
}

export interface JobCreation {
  readonly db: Database
  readonly trail: AuditTrail
  readonly limits: JobLimits
  readonly now: () => number
  /** Throws `webhook_url_invalid`. */
  readonly checkUrl: (text: string) => void
}

const queueRetrySeconds = 5
const sha256 = (bytes: string | Uint8Array) => Buffer.from(new Bun.CryptoHasher('sha256').update(bytes).digest())

/** The checks that need no row (§10): first those of the account (403), then those of the body (400). */
function checkRequest(access: Access, body: JobCreate, creation: JobCreation): void {
  if (access.accountStatus !== 'active') throw new Problem('account_suspended')
  const { encrypted_request: envelope } = body
  const fault = envelopeFault(envelope)
  if (fault !== null) {
    const param = `encrypted_request.${fault.field}`
    throw new Problem('envelope_invalid', {
      param,
      detail: `${param} ${fault.detail}`,
      errors: [{ pointer: `/encrypted_request/${fault.field}`, code: 'invalid', detail: fault.detail }],
    })
  }
  const context = { jobId: body.job_id ?? '', modelId: body.model_id, nodeId: body.node_id }
  const expected = requestAadHash(context, envelope.key_id, envelope.client_public_key_x25519)
  if (envelope.aad_hash !== undefined && envelope.aad_hash !== expected) {
    throw new Problem('envelope_aad_mismatch', { param: 'encrypted_request.aad_hash' })
  }
  if (body.webhook_url !== undefined) creation.checkUrl(body.webhook_url)
}

/** True if clients may seal with this key. A `retiring` key only opens what was sealed for it. */
function isUsable({ state, not_before, not_after }: TransportKey, nowMs: number): boolean {
  return state !== 'revoked' && Date.parse(not_before) <= nowMs && nowMs < Date.parse(not_after)
}

interface Target {
  readonly nodeId: rows.JobFacts['nodeId']
  readonly runtimeId: RuntimeId
  readonly upstreamModelId: string
}

/**
 * What the node has under this name, and the names that the policy is asked about. A name without a tag means `latest` where
 * nothing there is called exactly so (§28): of a node that is away only its names are known.
 */
async function findModel(db: Database, nodeId: rows.JobFacts['nodeId'], modelId: string) {
  const catalogue = catalogueOf(await listModelEntries(db))
  const look = async (name: string) => {
    const { names, policyNames: known } = catalogue.get(name) ?? { names: [name], policyNames: policyNames([name]) }
    return { names: known, served: await runtimeWith(db, nodeId, [name, ...names]) }
  }
  const exact = await look(modelId)
  const tagged = withLatest(modelId)
  if (exact.served !== null || tagged === null) return exact
  const latest = await look(tagged)
  return latest.served === null ? exact : latest
}

/** Finds node, key and model as they are now. An absent node is no fault, because the job waits for it. */
async function findTarget({ db, now }: JobCreation, access: Access, body: JobCreate): Promise<Target> {
  const { nodeScope, routeTiers } = access.policy
  const node = await ownNodeKeys(db, access.customerId, body.node_id)
  if (node === null || (nodeScope !== null && !nodeScope.has(node.nodeId))) throw new Problem('node_not_found')
  const { names, served } = await findModel(db, node.nodeId, body.model_id)
  if (!access.policy.allows(names) || (routeTiers !== null && !routeTiers.has(node.nodeClass))) {
    throw new Problem('model_not_allowed', { param: 'model_id' })
  }
  const key = node.transportKeys.find(({ key_id }) => key_id === body.encrypted_request.key_id)
  if (key === undefined || !isUsable(key, now())) {
    throw new Problem('transport_key_unavailable', { param: 'encrypted_request.key_id' })
  }
  if (served === null) throw new Problem('model_not_served', { param: 'model_id' })
  return { nodeId: node.nodeId, ...served }
}

/**
 * Endpoint 6. Every check comes before anything is written; the same request again, with or without a job id, is the
 * same job, even where meanwhile its key has gone. A new job has its command event (§16).
 */
export async function createJob(
  creation: JobCreation,
  access: Access,
  body: JobCreate,
  asker: Asker,
): Promise<CreatedJob> {
  checkRequest(access, body, creation)
  const fingerprint = sha256(canonicalJson(body))
  const before = await sameJob(creation.db, access, fingerprint)
  if (before !== null) return before
  const target = await findTarget(creation, access, body)
  return creation.db.transaction(async (tx) => {
    await rows.lockJobsOf(tx, access.customerId)
    const meanwhile = await sameJob(tx, access, fingerprint)
    if (meanwhile !== null) return meanwhile
    const made = await insert(tx, creation, { access, body, target, fingerprint })
    await creation.trail.command(tx, asker, { action: 'job.create', commandId: made.job.commandId })
    return made
  })
}

async function sameJob(db: Database, access: Access, fingerprint: Buffer): Promise<CreatedJob | null> {
  const job = await rows.jobByFingerprint(db, access.customerId, fingerprint)
  if (job === null) return null
  return { job, webhookUrl: (await webhookOf(db, job.commandId))?.url ?? null, replayed: true }
}

interface NewJob {
  readonly access: Access
  readonly body: JobCreate
  readonly target: Target
  readonly fingerprint: Buffer
}

async function insert(
  tx: Database,
  creation: JobCreation,
  { access, body, target, fingerprint }: NewJob,
): Promise<CreatedJob> {
  const { customerId } = access
  const commandId: CommandId = newId('cmd')
  if (body.job_id !== undefined && (await rows.isJobIdTaken(tx, customerId, body.job_id))) {
    throw new Problem('job_id_conflict', { param: 'job_id' })
  }
  const publicKey = decodeBase64Url(body.encrypted_request.client_public_key_x25519) ?? new Uint8Array()
  // A refusal after this statement also undoes the insert of the key.
  if (!(await rows.insertReplay(tx, target.nodeId, sha256(publicKey), commandId))) {
    throw new Problem('envelope_replayed', { param: 'encrypted_request.client_public_key_x25519' })
  }
  await checkQueues(tx, creation.limits, customerId, target.nodeId)
  const now = new Date(creation.now())
  const jobId = body.job_id ?? newId('job')
  const job = await rows.insertJob(tx, {
    ...target,
    commandId,
    jobId,
    sealedJobId: body.job_id ?? '',
    customerId,
    modelId: body.model_id,
    fingerprint,
    encryptedRequest: body.encrypted_request,
    requestId: newId('req'),
    dueAt: now,
    deadlineAt: new Date(now.getTime() + creation.limits.ttlMs),
    createdAt: now,
  })
  // The URL is stored as the client sent it, because the client compares it.
  const webhookUrl = body.webhook_url ?? null
  if (webhookUrl !== null) {
    await insertWebhook(tx, { webhookId: newId('msg'), commandId, jobId, customerId, url: webhookUrl })
  }
  await rows.announceDueWork(tx, dueWorkChannel, jobWork)
  return { job, webhookUrl, replayed: false }
}

async function checkQueues(
  tx: Database,
  limits: JobLimits,
  customerId: Access['customerId'],
  nodeId: Target['nodeId'],
): Promise<void> {
  const full = (what: string, most: number) =>
    new Problem('job_queue_full', {
      detail: `${what} may have ${most} unfinished jobs`,
      retryAfterSeconds: queueRetrySeconds,
    })
  if ((await rows.countOpenJobs(tx, { customerId })) >= limits.openPerCustomerMax) {
    throw full('A customer', limits.openPerCustomerMax)
  }
  if ((await rows.countOpenJobs(tx, { nodeId })) >= limits.openPerNodeMax) throw full('A node', limits.openPerNodeMax)
}
