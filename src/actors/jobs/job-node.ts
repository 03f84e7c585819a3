import { type TypeCheck, TypeCompiler } from '@sinclair/typebox/compiler'
import { commandsPath, headers, receiptVersion, timedReceiptVersion } from '../../brand.ts'
import type { ClaimedJob, JobFacts } from '../../db/queries/jobs/jobs.ts'
import type { AttendOutcome, JobResult, SubmitOutcome } from '../../machines/charts/private-job.ts'
import { foreignJson } from '../../protocol/json/foreign-json.ts'
import { type Receipt, receiptText, textHash, versionOf } from '../../protocol/receipts/receipt.ts'
import { areTimesOfWork } from '../../protocol/receipts/receipt-times.ts'
import { base64UrlLength, encodeBase64Url } from '../../protocol/signing/base64.ts'
import { verifyKey } from '../../protocol/signing/ed25519.ts'
import { ciphertextBytesMax, type Envelope, envelopeFault } from '../../protocol/signing/envelope.ts'
import { receiptMessage } from '../../protocol/signing/signatures.ts'
import {
  CommandState,
  type CommandSubmit,
  commandWaitSecondsMax,
  finalFailures,
  retryableFailures,
} from '../../protocol/wire/admin/command.ts'
import type { NodeReceipt } from '../../protocol/wire/nodes/agent.ts'
import { isoTime, secondMs } from '../../time.ts'
import { CallSignal } from '../../transport/call-signal.ts'
import { type NodeRequest, type NodeTransport, TransportError } from '../../transport/transport.ts'

/** Our own codes, in addition to those that a node may report. */
const resultInvalid = 'result_invalid'
const nodeRefused = 'node_refused'

const submitMs = 30 * secondMs
const cancelMs = 5 * secondMs
const beyondWaitMs = 10 * secondMs
/** The length of the largest ciphertext in base64url and of the JSON around it. */
const answerCharsMax = Math.ceil((ciphertextBytesMax * 4) / 3) + 64 * 1024
const knownCodes: ReadonlySet<string> = new Set([...retryableFailures, ...finalFailures])
const stateCheck: TypeCheck<typeof CommandState> = TypeCompiler.Compile(CommandState)

const pathOf = (commandId: string) => `${commandsPath}/${commandId}`

interface Answer {
  readonly status: number
  /** The parsed body, or undefined if it is not JSON or exceeds its bounds. */
  readonly body: unknown
}

/** Makes one call with a time limit. null means that there was no answer, which says nothing about the command. */
async function call(
  transport: NodeTransport,
  path: string,
  request: Omit<NodeRequest, 'signal'>,
  boundMs: number,
  signal: AbortSignal,
): Promise<Answer | null> {
  const ended = new CallSignal()
  const end = () => ended.abort()
  const timer = setTimeout(end, boundMs)
  signal.addEventListener('abort', end)
  try {
    if (signal.aborted) return null
    const response = await transport.fetch(path, { ...request, signal: ended })
    const text = await response.text(answerCharsMax)
    return { status: response.status, body: foreignJson(text) }
  } catch (error) {
    if (!(error instanceof TransportError)) throw error
    return null
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', end)
  }
}

/** The code of a problem body or of a failed command. A code that a node may not use becomes one fixed word. */
function codeOf(body: unknown): string {
  const { code } = (body ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && knownCodes.has(code) ? code : nodeRefused
}

/**
 * True if the node is too busy, does not trust the gateway yet (clocks) or is broken, so that it said nothing about
 * the command.
 */
const saysNothing = (status: number) => status >= 500 || [401, 403, 408, 421, 425, 429].includes(status)

export async function submitCommand(
  transport: NodeTransport,
  job: ClaimedJob,
  envelope: Envelope,
  { timed, signal }: { readonly timed: boolean; readonly signal: AbortSignal },
): Promise<SubmitOutcome> {
  const body: CommandSubmit = {
    attempt: job.attempt,
    request_id: job.requestId,
    job_id: job.jobId,
    sealed_job_id: job.sealedJobId,
    node_id: job.nodeId,
    model_id: job.modelId,
    upstream_model_id: job.upstreamModelId,
    runtime_id: job.runtimeId,
    deadline_at: isoTime(job.deadlineAt),
    encrypted_request: envelope,
  }
  const request = {
    method: 'PUT' as const,
    headers: {
      'content-type': 'application/json',
      ...(timed ? { [headers.receiptVersion]: timedReceiptVersion } : {}),
    },
    body: JSON.stringify(body),
  }
  const answer = await call(transport, pathOf(job.commandId), request, submitMs, signal)
  if (answer === null || saysNothing(answer.status)) return { kind: 'unreachable' }
  if (answer.status >= 200 && answer.status < 300) return { kind: 'accepted' }
  return { kind: 'refused', code: codeOf(answer.body) }
}

export interface ReceiptTruth {
  readonly nodeClass: string
  readonly identityKey: Buffer | null
}

/** Waits at the node with long polls until the command has ended. */
export async function attendCommand(
  transport: NodeTransport,
  job: ClaimedJob,
  truth: ReceiptTruth,
  { now, signal }: { readonly now: () => number; readonly signal: AbortSignal },
): Promise<AttendOutcome> {
  const path = `${pathOf(job.commandId)}?wait_s=${commandWaitSecondsMax}`
  const boundMs = commandWaitSecondsMax * secondMs + beyondWaitMs
  for (;;) {
    const askedMs = performance.now()
    const answer = await call(transport, path, { method: 'GET' }, boundMs, signal)
    if (answer === null || saysNothing(answer.status)) return { kind: 'unreachable' }
    if (answer.status === 404) return { kind: 'lost' }
    const outcome = outcomeOf(answer, job, truth, now())
    if (outcome !== null) return outcome
    // A node that answers "running" at once must not be asked again at once.
    const early = secondMs - (performance.now() - askedMs)
    if (early > 0) await Bun.sleep(early)
  }
}

/** null if the command still runs. */
function outcomeOf(answer: Answer, job: ClaimedJob, truth: ReceiptTruth, nowMs: number): AttendOutcome | null {
  const state = answer.body
  if (answer.status !== 200 || !stateCheck.Check(state)) return { kind: 'failed', code: resultInvalid }
  if (state.command_id !== job.commandId) return { kind: 'failed', code: resultInvalid }
  // An agent that only knows an earlier attempt has lost this one. If it knows a later attempt, this gateway is late.
  if (state.attempt < job.attempt) return { kind: 'lost' }
  if (state.attempt > job.attempt) return { kind: 'unreachable' }
  switch (state.status) {
    case 'running':
      return null
    case 'cancelled':
      return { kind: 'failed', code: nodeRefused }
    case 'failed':
      return { kind: 'failed', code: codeOf(state.error) }
    case 'completed': {
      const result = checkedResult(state.encrypted_response, state.receipt, job, truth, nowMs)
      return result === null ? { kind: 'failed', code: resultInvalid } : { kind: 'completed', result }
    }
  }
}

/** null if the result is not the node's, not for this job, or no answer to this envelope. */
function checkedResult(
  encryptedResponse: Envelope,
  { receipt: wire, receipt_hash: hash, signature_ed25519: signature }: NodeReceipt,
  job: ClaimedJob,
  { nodeClass, identityKey }: ReceiptTruth,
  nowMs: number,
): JobResult | null {
  const sameExchange =
    envelopeFault(encryptedResponse) === null &&
    encryptedResponse.key_id === job.keyId &&
    encryptedResponse.client_public_key_x25519 === job.clientPublicKey
  const sameWork =
    wire.v === (wire.issued_at === undefined ? receiptVersion : timedReceiptVersion) &&
    wire.request_id === job.requestId &&
    wire.job_id === job.jobId &&
    wire.kind === 'private_job' &&
    wire.node_id === job.nodeId &&
    wire.node_class === nodeClass &&
    wire.runtime_id === job.runtimeId &&
    wire.model_id === job.modelId
  if (!sameExchange || !sameWork || identityKey === null) return null
  const facts = receiptOf(wire)
  // The job may have ended while no gateway was there to hear of it.
  const createdMs = job.createdAt.getTime()
  if (!areTimesOfWork(facts, { fromMs: createdMs, endFromMs: createdMs, toMs: nowMs })) return null
  const text = receiptText(facts)
  const key = verifyKey(encodeBase64Url(identityKey))
  if (textHash(text) !== hash || key === null || !key.verify(receiptMessage(hash, versionOf(facts)), signature))
    return null
  return {
    encryptedResponse,
    receiptHash: hash,
    receiptText: text,
    signature,
    held: isImplausible(wire, job, encryptedResponse),
  }
}

function receiptOf(wire: NodeReceipt['receipt']): Receipt {
  return {
    issuer: wire.issuer,
    requestId: wire.request_id,
    jobId: wire.job_id,
    kind: wire.kind,
    nodeId: wire.node_id,
    nodeClass: wire.node_class,
    runtimeId: wire.runtime_id,
    runtimeKind: wire.runtime_kind,
    modelId: wire.model_id,
    promptTokens: wire.prompt_tokens,
    completionTokens: wire.completion_tokens,
    startedAt: wire.started_at,
    completedAt: wire.completed_at,
    issuedAt: wire.issued_at ?? null,
  }
}

/** No token is shorter than a byte. Without the texts, usage can be checked by this alone (§5). */
function isImplausible(
  { prompt_tokens, completion_tokens }: NodeReceipt['receipt'],
  { ciphertextChars }: ClaimedJob,
  response: Envelope,
): boolean {
  const requestBytes = (ciphertextChars * 3) / 4
  return prompt_tokens > requestBytes || completion_tokens > (base64UrlLength(response.ciphertext) ?? 0)
}

/** Cancels the command if possible. The gateway does not wait for what the node still does. */
export async function cancelCommand(transport: NodeTransport, job: Pick<JobFacts, 'commandId'>): Promise<void> {
  const never = new AbortController().signal
  await call(transport, pathOf(job.commandId), { method: 'DELETE' }, cancelMs, never)
}
