import { headers } from '../brand.ts'
import { foreignAnswer, foreignJson } from '../protocol/json/foreign-json.ts'
import { decodeBase64Url, encodeBase64Url } from '../protocol/signing/base64.ts'
import type { Envelope } from '../protocol/signing/envelope.ts'
import { openResponse, type SealedRequest, sealRequest } from '../protocol/signing/envelope-sealing.ts'
import type { JobRead, JobStatus, NodeKeys, WebhookRecord } from '../protocol/wire/inference/job.ts'
import { chooseKey } from './node-keys.ts'

// What the client throws and what its caller compares: this module is the package's `./client`.
export { EnvelopeError } from '../protocol/signing/envelope-sealing.ts'
export { identityFingerprint } from '../protocol/signing/identity-fingerprint.ts'
export { NodeKeyError } from './node-keys.ts'
// A fetch that seals, for clients of every dialect.
export {
  type NodeJudge,
  type Pins,
  SealedError,
  type SealedFault,
  type SealedFetchOptions,
  sealedFetch,
  type TrustedNode,
} from './sealed/sealed-fetch.ts'

/**
 * Private jobs from a customer's own program or web page: seal, submit, wait, open. Prompt and answer are in the clear
 * here and on the node, and nowhere between. Needs `fetch`, `crypto.getRandomValues` and nothing else of its surroundings.
 */
export interface PrivateJobsOptions {
  /** The gateway's URL, with or without a slash at the end. */
  readonly baseUrl: string
  readonly customerId: string
  readonly customerToken: string
  readonly fetch?: (url: string, init: RequestInit) => Promise<Response>
  /** Unix ms. */
  readonly now?: () => number
}

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

export interface JobProgress {
  readonly status: JobStatus
  readonly webhook: WebhookRecord | null
}

export interface WaitOptions {
  /** The time between two reads, ms. The default is 1 000. */
  readonly pollMs?: number
  readonly signal?: AbortSignal
  readonly onProgress?: (progress: JobProgress) => void
}

export interface PrivateJobsClient {
  /** The node's signed keys as the gateway reports them. Do not trust them before `chooseKey` has checked them. */
  nodeKeys(nodeId: string, signal?: AbortSignal): Promise<NodeKeys>
  /** Throws `NodeKeyError` before anything is sealed, and `GatewayError` for a refusal. */
  submit(request: JobRequest): Promise<SubmittedJob>
  /** Throws `EnvelopeError` if the answer is not the node's answer to this request. */
  read(job: SubmittedJob, signal?: AbortSignal): Promise<JobProgress & { readonly outcome: JobOutcome | null }>
  /** Its envelopes as the gateway has them, unopened; for `verify envelope`. */
  envelopes(job: SubmittedJob, signal?: AbortSignal): Promise<Pick<JobRead, 'encrypted_request' | 'encrypted_response'>>
  /** Reads until the job has ended. */
  wait(job: SubmittedJob, options?: WaitOptions): Promise<JobOutcome>
}

/** What the gateway says about its refusal. */
export interface RefusalText {
  readonly title: string | null
  readonly detail: string | null
  readonly requestId: string | null
}

/** A refusal of the gateway; `code` as in its error catalogue, `unknown` for an answer that is no gateway's. */
export class GatewayError extends Error {
  override readonly name = 'GatewayError'
  constructor(
    readonly status: number,
    readonly code: string,
    readonly text: RefusalText,
  ) {
    super(`the gateway refused: ${code}${text.detail === null ? '' : ` (${text.detail})`}`)
  }
}

/** Something answered in the gateway's place, or a proxy changed its answer: it has not the shape of one. */
export class GatewayAnswerError extends Error {
  override readonly name = 'GatewayAnswerError'
  constructor(readonly status: number) {
    super(`the gateway answered HTTP ${status} with something that is no answer to this request`)
  }
}

const jobsPath = '/v1/api/private-inference/jobs'
const pollMsDefault = 1_000
/** Texts are padded with spaces to a multiple of this, so that their length reveals little, bytes. */
const paddingBytes = 256
const forbidden = ['model', 'stream', 'n', 'svc'] as const
/** If an answer was lost, the job may already exist. Sending the same bytes again gives the same job. */
const triesMax = 3
/** The largest sealed answer in base64url, and what stands around it. */
const answerBytesMax = 16 * 1024 * 1024

export function createPrivateJobs(options: PrivateJobsOptions): PrivateJobsClient {
  return new Client(options)
}

class Client implements PrivateJobsClient {
  private readonly base: string
  private readonly now: () => number

  constructor(private readonly options: PrivateJobsOptions) {
    this.base = options.baseUrl.replace(/\/+$/, '')
    this.now = options.now ?? Date.now
  }

  async nodeKeys(nodeId: string, signal?: AbortSignal): Promise<NodeKeys> {
    const path = `/v1/api/private-inference/nodes/${encodeURIComponent(nodeId)}/keys`
    return this.ask('GET', path, isNodeKeys, { signal })
  }

  async submit(request: JobRequest): Promise<SubmittedJob> {
    const plaintext = padded(request.chat)
    try {
      return await this.sealAndSend(request, plaintext)
    } catch (error) {
      // The node replaced its key between the two requests, so the client tries once more with the new key.
      if (!(error instanceof GatewayError) || error.code !== 'transport_key_unavailable') throw error
      return this.sealAndSend(request, plaintext)
    }
  }

  async envelopes(job: SubmittedJob, signal?: AbortSignal): Promise<JobRead> {
    const path = `${jobsPath}/${encodeURIComponent(job.jobId)}`
    return this.ask('GET', path, isJobRead, { signal })
  }

  async read(job: SubmittedJob, signal?: AbortSignal) {
    const read = await this.envelopes(job, signal)
    return { status: read.status, webhook: read.webhook, outcome: outcomeOf(job, read) }
  }

  async wait(job: SubmittedJob, { pollMs = pollMsDefault, signal, onProgress }: WaitOptions = {}): Promise<JobOutcome> {
    let last: JobStatus | null = null
    for (;;) {
      const { status, webhook, outcome } = await this.read(job, signal)
      if (status !== last) onProgress?.({ status, webhook })
      last = status
      if (outcome !== null) return outcome
      await pause(pollMs, signal)
    }
  }

  private async sealAndSend(request: JobRequest, plaintext: Uint8Array): Promise<SubmittedJob> {
    const { nodeId, modelId, jobId, webhookUrl, fingerprint, signal } = request
    const nodeKey = chooseKey(await this.nodeKeys(nodeId, signal), fingerprint, this.now())
    const sealed = sealRequest(nodeKey, { jobId: jobId ?? '', modelId, nodeId }, plaintext)
    const body = JSON.stringify({
      ...(jobId === undefined ? {} : { job_id: jobId }),
      node_id: nodeId,
      model_id: modelId,
      ...(webhookUrl === undefined ? {} : { webhook_url: webhookUrl }),
      encrypted_request: sealed.envelope,
    })
    return submitted(request, await this.ask('POST', jobsPath, isCreated, { body, signal }), sealed)
  }

  private async ask<T>(
    method: string,
    path: string,
    isAnswer: (answer: Fields) => answer is Fields & T,
    { body, signal }: { readonly body?: string; readonly signal: AbortSignal | undefined },
  ): Promise<T> {
    const { customerId, customerToken } = this.options
    const send = this.options.fetch ?? ((url, init) => fetch(url, init))
    const init: RequestInit = {
      method,
      headers: {
        [headers.customerId]: customerId,
        [headers.customerToken]: customerToken,
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      },
      ...(body === undefined ? {} : { body }),
      ...(signal === undefined ? {} : { signal }),
    }
    for (let tries = 1; ; tries++) {
      try {
        return await answerOf(await send(this.base + path, init), isAnswer)
      } catch (error) {
        signal?.throwIfAborted()
        const passing = error instanceof GatewayError ? error.status === 503 : true
        if (!passing || tries === triesMax) throw error
        await pause(pollMsDefault, signal)
      }
    }
  }
}

type Fields = Readonly<Record<string, unknown>>
const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

async function answerOf<T>(response: Response, isAnswer: (answer: Fields) => answer is Fields & T): Promise<T> {
  const answer = await foreignAnswer(response, answerBytesMax)
  const fields = isFields(answer) ? answer : {}
  if (response.ok && isAnswer(fields)) return fields
  if (response.ok) throw new GatewayAnswerError(response.status)
  const { code, title, detail, request_id } = fields
  const text = { title: wordsOf(title), detail: wordsOf(detail), requestId: wordsOf(request_id) }
  throw new GatewayError(response.status, wordsOf(code) ?? 'unknown', text)
}

type Created = Pick<JobRead, 'job_id' | 'created_at'> & { readonly command_id: string }

// What the shapes of the wire say of the members that are read here: a browser need not carry the whole schema.
const isCreated = (answer: Fields): answer is Fields & Created =>
  [answer.job_id, answer.command_id, answer.created_at].every((text) => typeof text === 'string')
const statuses: Readonly<Record<JobStatus, true>> = {
  queued: true,
  dispatched: true,
  running: true,
  completed: true,
  failed: true,
  expired: true,
  cancelled: true,
}
const isJobRead = (answer: Fields): answer is Fields & JobRead =>
  Object.hasOwn(statuses, String(answer.status)) &&
  (answer.status !== 'completed' || isFields(answer.encrypted_response))
const isKey = (key: unknown) =>
  isFields(key) && [key.public_key_x25519, key.signature_ed25519].every((text) => typeof text === 'string')
const isNodeKeys = (answer: Fields): answer is Fields & NodeKeys =>
  typeof answer.identity_public_key_ed25519 === 'string' && Array.isArray(answer.keys) && answer.keys.every(isKey)

const wordsOf = (value: unknown): string | null => (typeof value === 'string' ? value : null)

function padded(chat: Readonly<Record<string, unknown>>): Uint8Array {
  const named = forbidden.find((name) => name in chat)
  if (named !== undefined) throw new TypeError(`a private job's chat request has no ${named}`)
  const bytes = new TextEncoder().encode(JSON.stringify(chat))
  const size = Math.ceil(bytes.length / paddingBytes) * paddingBytes
  const full = new Uint8Array(size).fill(0x20)
  full.set(bytes)
  return full
}

function submitted(
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
function outcomeOf(job: SubmittedJob, read: JobRead): JobOutcome | null {
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

function pause(ms: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer)
      reject(signal?.reason)
    }
    const timer = setTimeout(() => {
      signal?.removeEventListener('abort', end)
      resolve()
    }, ms)
    if (signal?.aborted) return end()
    signal?.addEventListener('abort', end, { once: true })
  })
}
