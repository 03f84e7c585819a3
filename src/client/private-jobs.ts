import { headers } from '../brand.ts'
import { sealRequest } from '../protocol/signing/envelope-sealing.ts'
import type { JobRead, JobStatus, NodeKeys, WebhookRecord } from '../protocol/wire/inference/job.ts'
import { answerOf, type Fields, GatewayError, isCreated, isJobRead, isNodeKeys } from './gateway-answers.ts'
import { chooseKey } from './node-keys.ts'
import { type JobOutcome, type JobRequest, outcomeOf, padded, type SubmittedJob, submitted } from './submitted-job.ts'

// What the client throws and what its caller compares: this module is the package's `./client`.
export { EnvelopeError } from '../protocol/signing/envelope-sealing.ts'
export { identityFingerprint } from '../protocol/signing/identity-fingerprint.ts'
export { GatewayAnswerError, GatewayError, type RefusalText } from './gateway-answers.ts'
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
export type { JobOutcome, JobRequest, SubmittedJob } from './submitted-job.ts'

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

const jobsPath = '/v1/api/private-inference/jobs'
const pollMsDefault = 1_000
/** If an answer was lost, the job may already exist. Sending the same bytes again gives the same job. */
const triesMax = 3
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
