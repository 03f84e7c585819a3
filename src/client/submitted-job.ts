import { foreignJson } from '../protocol/json/foreign-json.ts'
import { decodeBase64Url, encodeBase64Url } from '../protocol/signing/base64.ts'
import type { Envelope } from '../protocol/signing/envelope.ts'
import { openResponse, type SealedRequest } from '../protocol/signing/envelope-sealing.ts'
import type { JobRead } from '../protocol/wire/inference/job.ts'
import type { Created } from './gateway-answers.ts'

/** What is sealed for a job, and what is opened of its end: nothing here calls the gateway. */

export interface JobRequest {
  readonly nodeId: string
  /** `SHA256:…`, as the node prints it: compare it there once and keep it. */
  readonly fingerprint: string
  readonly modelId: string
  /** A chat request as OpenAI has it: `messages`, `max_tokens`, … Without `model`, `stream`, `n` and `svc`. */
  readonly chat: Readonly<Record<string, unknown>>
  /** Your own id. Without one the gateway makes one. */
  readonly jobId?: string
  /** An https URL that the gateway notifies when the job ends. */
  readonly webhookUrl?: string
  readonly signal?: AbortSignal
}

/**
 * Everything that is needed to fetch and decrypt the answer, also in another process, as plain JSON. Anyone who has it
 * can read the answer.
 */
export interface SubmittedJob {
  readonly jobId: string
  readonly commandId: string
  readonly nodeId: string
  readonly modelId: string
  /** The job id in the envelope, which is empty if you gave none. */
  readonly sealedJobId: string
  readonly createdAt: string
  readonly responseKeys: {
    readonly secret: string
    readonly clientPublicKey: string
    readonly nodePublicKey: string
    readonly keyId: string
    readonly requestHash: string
  }
}

/** `answer`: a chat completion as OpenAI has it, or `{"error":{code,message}}` of the node's runtime. */
export type JobOutcome =
  | { readonly status: 'completed'; readonly answer: unknown; readonly receiptHash: string | null }
  | { readonly status: 'failed' | 'expired' | 'cancelled'; readonly code: string | null }

/** Texts are padded with spaces to a multiple of this, so that their length reveals little, bytes. */
const paddingBytes = 256
const forbidden = ['model', 'stream', 'n', 'svc'] as const
/** The text that is sealed, bytes. Throws `TypeError` for a member that the job itself has. */
export function padded(chat: Readonly<Record<string, unknown>>): Uint8Array {
  const named = forbidden.find((name) => name in chat)
  if (named !== undefined) throw new TypeError(`a private job's chat request has no ${named}`)
  const bytes = new TextEncoder().encode(JSON.stringify(chat))
  const size = Math.ceil(bytes.length / paddingBytes) * paddingBytes
  const full = new Uint8Array(size).fill(0x20)
  full.set(bytes)
  return full
}

export function submitted(
  { nodeId, modelId, jobId }: JobRequest,
  created: Created,
  { responseKeys }: SealedRequest,
): SubmittedJob {
  return {
    jobId: created.job_id,
    commandId: created.command_id,
    nodeId,
    modelId,
    sealedJobId: jobId ?? '',
    createdAt: created.created_at,
    responseKeys: { ...responseKeys, secret: encodeBase64Url(responseKeys.secret) },
  }
}

/** null if the job has not ended. */
export function outcomeOf(job: SubmittedJob, read: JobRead): JobOutcome | null {
  switch (read.status) {
    case 'queued':
    case 'dispatched':
    case 'running':
      return null
    case 'completed':
      return {
        status: 'completed',
        answer: openAnswer(job, read.encrypted_response),
        receiptHash: read.receipt_hash ?? null,
      }
    case 'failed':
    case 'expired':
    case 'cancelled':
      return { status: read.status, code: read.error?.code ?? null }
  }
}

function openAnswer(job: SubmittedJob, envelope: Envelope | undefined): unknown {
  if (envelope === undefined) throw new TypeError('the gateway gave no answer for a completed job')
  const { secret, ...rest } = job.responseKeys
  const keys = { ...rest, secret: decodeBase64Url(secret) ?? new Uint8Array() }
  const context = { jobId: job.sealedJobId, modelId: job.modelId, nodeId: job.nodeId }
  const answer = foreignJson(new TextDecoder().decode(openResponse(keys, context, envelope)))
  if (answer === undefined) throw new SyntaxError('the node’s answer is not JSON')
  return answer
}
