import { brand } from '../../brand.ts'
import { parseJson } from '../../protocol/json/json-body.ts'
import type { Receipt } from '../../protocol/receipts/receipt.ts'
import { ciphertextBytesMax } from '../../protocol/signing/envelope.ts'
import { EnvelopeError, openRequest, type ResponseKeys, sealResponse } from '../../protocol/signing/envelope-sealing.ts'
import type { CommandState, CommandSubmit, NodeFailure } from '../../protocol/wire/admin/command.ts'
import { isoTime } from '../../time.ts'
import type { SignReceipt } from '../receipts/receipt-signer.ts'

/** A local runtime's result for a chat. */
export type WorkOutcome =
  | {
      readonly kind: 'answered'
      /** A chat completion, or `{error: {code, message}}` where the request itself was refused. */
      readonly answer: object
      readonly runtimeKind: string
      readonly promptTokens: number
      readonly completionTokens: number
    }
  | { readonly kind: 'failed'; readonly code: 'runtime_error' | 'model_unavailable' }

export interface Work {
  /** A chat request in which `model` is the runtime's name for the model. */
  readonly chat: Readonly<Record<string, unknown>>
  readonly command: CommandSubmit
  readonly signal: AbortSignal
}

/** Who opens, works and signs. */
export interface Worker {
  readonly nodeId: string
  nodeClass(): string
  /** By the node's identity. */
  readonly sign: SignReceipt
  /** null for a key that is unknown or expired. */
  secretKey(keyId: string): Uint8Array | null
  /** Rejects only for defects. */
  run(work: Work): Promise<WorkOutcome>
}

/** What the gateway asked for. */
export interface SealedJob {
  readonly command: CommandSubmit
  /** The gateway reads receipts that say when they were signed. */
  readonly timed: boolean
}

const tagBytes = 16
const paddingBytes = 256
/** Members of a chat request that have no place in a sealed one (§10). */
const forbidden = ['model', 'stream', 'n', brand] as const

class Refusal extends Error {
  constructor(readonly code: NodeFailure) {
    super(code)
  }
}

/**
 * Opens, runs, seals, signs. The plain text exists only in this call and goes only to the runtime. Resolves with the
 * state for the gateway; rejects when the signal aborts.
 */
export async function runSealed(worker: Worker, commandId: string, order: SealedJob, signal: AbortSignal) {
  const { command } = order
  const base = { command_id: commandId, attempt: command.attempt }
  const failed = (code: string): CommandState => ({ ...base, status: 'failed', error: { code } })
  const startedAt = isoTime(Date.now())
  try {
    const { chat, responseKeys } = opened(worker, command)
    const outcome = await worker.run({ chat: { ...chat, model: command.upstream_model_id }, command, signal })
    signal.throwIfAborted()
    if (outcome.kind === 'failed') return failed(outcome.code)
    const context = contextOf(worker, command)
    const state: CommandState = {
      ...base,
      status: 'completed',
      encrypted_response: sealResponse(responseKeys, context, padded(outcome.answer)),
      receipt: signedReceipt(worker, order, outcome, startedAt),
    }
    return state
  } catch (error) {
    if (error instanceof Refusal) return failed(error.code)
    throw error
  }
}

const contextOf = ({ nodeId }: Worker, command: CommandSubmit) => ({
  jobId: command.sealed_job_id,
  modelId: command.model_id,
  nodeId,
})

function opened(
  worker: Worker,
  command: CommandSubmit,
): { readonly chat: Readonly<Record<string, unknown>>; readonly responseKeys: ResponseKeys } {
  const secretKey = worker.secretKey(command.encrypted_request.key_id)
  if (secretKey === null) throw new Refusal('decrypt_failed')
  try {
    const { plaintext, responseKeys } = openRequest(secretKey, contextOf(worker, command), command.encrypted_request)
    return { chat: chatOf(plaintext), responseKeys }
  } catch (error) {
    // All failures have one code without a detail, so that a forger does not learn how near they were.
    if (error instanceof EnvelopeError) throw new Refusal('decrypt_failed')
    throw error
  }
}

function chatOf(plaintext: Uint8Array): Readonly<Record<string, unknown>> {
  let chat: unknown
  try {
    chat = parseJson(new TextDecoder('utf-8', { fatal: true }).decode(plaintext))
  } catch {
    throw new Refusal('invalid_payload')
  }
  if (typeof chat !== 'object' || chat === null || Array.isArray(chat)) throw new Refusal('invalid_payload')
  const own = (chat as { readonly [brand]?: { readonly mixture?: unknown } })[brand]
  if (own?.mixture !== undefined || 'mixture' in chat) throw new Refusal('mixture_unsupported_path')
  const { messages } = chat as { readonly messages?: unknown }
  if (forbidden.some((name) => name in chat) || !Array.isArray(messages) || messages.length === 0) {
    throw new Refusal('invalid_payload')
  }
  return chat as Readonly<Record<string, unknown>>
}

function padded(answer: object): Uint8Array {
  const bytes = new TextEncoder().encode(JSON.stringify(answer))
  const size = Math.ceil(bytes.length / paddingBytes) * paddingBytes
  if (size + tagBytes > ciphertextBytesMax) throw new Refusal('result_too_large')
  const full = new Uint8Array(size).fill(0x20)
  full.set(bytes)
  return full
}

function signedReceipt(
  { nodeId, nodeClass, sign }: Worker,
  { command, timed }: SealedJob,
  outcome: Extract<WorkOutcome, { kind: 'answered' }>,
  startedAt: string,
): Extract<CommandState, { status: 'completed' }>['receipt'] {
  const receipt: Receipt = {
    issuer: 'node',
    requestId: command.request_id,
    jobId: command.job_id,
    kind: 'private_job',
    nodeId,
    nodeClass: nodeClass(),
    runtimeId: command.runtime_id,
    runtimeKind: outcome.runtimeKind,
    modelId: command.model_id,
    promptTokens: outcome.promptTokens,
    completionTokens: outcome.completionTokens,
    startedAt,
    completedAt: isoTime(Date.now()),
  }
  return sign(receipt, timed)
}
