import type { NewReceipt } from '../../db/queries/money/receipts.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { AnswerMetadata } from '../../protocol/chat/chunk-reader.ts'
import type { PublicChoice } from '../../protocol/chat/completion.ts'
import type { TokenUsage } from '../../protocol/chat/token-usage.ts'
import type { ReceiptBinding } from '../../protocol/receipts/binding.ts'
import { besideReceipt, readNodeReceipt } from '../../protocol/receipts/node-receipt.ts'
import { type Receipt, receiptText, textHash } from '../../protocol/receipts/receipt.ts'
import type { SeenSpan } from '../../protocol/receipts/receipt-times.ts'
import type { VerifyKey } from '../../protocol/signing/ed25519.ts'
import type { ChatMetadata } from '../../protocol/wire/inference/chat.ts'
import { isoTime } from '../../time.ts'
import type { Attempt } from '../relay/attempt.ts'
import type { ChatCommand } from './chat-command.ts'
import type { ChatPort } from './chat-port.ts'

/** A node's report of its work. */
export interface ReportedWork {
  readonly usage: TokenUsage
  readonly estimated: boolean
  /** The node's own `svc`; null: an agent gives no receipt of such work. */
  readonly vouched: { readonly svc: unknown } | null
  /** All of the answer came, and with it the node's receipt. */
  readonly whole: boolean
  /** Its answer, for a bound receipt; null if not whole, or not kept. */
  readonly choices: readonly PublicChoice[] | null
}

/** The usage and receipt of an answer, before anything of it is written or sent. */
export interface Conclusion {
  readonly route: Route
  readonly usage: TokenUsage
  readonly receipt: NewReceipt
  /** `svc` of the answer. */
  readonly metadata: ChatMetadata
}

interface ReceiptSource {
  readonly port: Pick<ChatPort, 'timed'>
  readonly command: ChatCommand
  readonly binding: ReceiptBinding | null
}

function factsOf(
  { port, command, binding }: ReceiptSource,
  { route, callId }: Attempt,
  reported: ReportedWork,
  now: number,
  latencyMs: number,
): Receipt {
  const completedAt = isoTime(now)
  const facts: Receipt = {
    issuer: 'gateway',
    requestId: callId,
    jobId: command.body.svc?.job_id ?? null,
    kind: command.operation.receiptKind,
    nodeId: route.nodeId,
    nodeClass: route.nodeClass,
    runtimeId: route.runtimeId,
    runtimeKind: route.runtimeKind,
    modelId: route.modelId,
    promptTokens: reported.usage.prompt_tokens,
    completionTokens: reported.usage.completion_tokens,
    startedAt: isoTime(now - latencyMs),
    completedAt,
    issuedAt: port.timed() ? completedAt : null,
  }
  return binding === null ? facts : { ...facts, ...binding.facts(route.upstreamModelId, reported.choices) }
}

/** Of v1, as an agent of a version before signs it for a request that has a nonce. */
const unbound = ({ clientNonce: _, ...facts }: Receipt): Receipt => facts

/** An agent estimates for a runtime that reports no usage, by the same rule. */
export const saysEstimated = (vouched: ReportedWork['vouched']) =>
  (vouched?.svc as { readonly usage_estimated?: unknown } | null | undefined)?.usage_estimated === true

/**
 * An agent's own receipt if it agrees with the gateway's observations, else the gateway's (§14), together with the
 * agent's if it signed a different one (§31). `invalid`: the agent owed a receipt and gave none that agrees.
 */
export function receiptOf(
  asked: ReceiptSource,
  attempt: Attempt,
  reported: ReportedWork,
  latencyMs: number,
): { readonly receipt: NewReceipt; readonly invalid: boolean } {
  const { customerId } = asked.command.access
  const now = Date.now()
  const facts = factsOf(asked, attempt, reported, now, latencyMs)
  const span = { fromMs: now - latencyMs, endFromMs: now, toMs: now }
  const { agent } = attempt.route
  const svc = reported.vouched?.svc
  if (agent === null || reported.vouched === null) return { receipt: own(facts, customerId, null), invalid: false }
  const fitting = reported.whole ? readNodeReceipt(svc, facts, agent, span) : null
  if (fitting !== null) return { receipt: { ...fitting, customerId }, invalid: false }
  const beside = svc === undefined ? null : besideReceipt(svc, facts, agent)
  return { receipt: own(facts, customerId, beside), invalid: reported.whole && !isOfBefore(svc, facts, agent, span) }
}

function isOfBefore(svc: unknown, facts: Receipt, agent: VerifyKey, span: SeenSpan): boolean {
  return facts.clientNonce != null && readNodeReceipt(svc, unbound(facts), agent, span) !== null
}

function own(facts: Receipt, customerId: string, nodeReceipt: string | null): NewReceipt {
  const text = receiptText(facts)
  const receipt = { text, hash: textHash(text), customerId, facts }
  return nodeReceipt === null ? receipt : { ...receipt, nodeReceipt }
}

/** `svc` of one answer that several calls gave, under the request's own id. `told`: what the calls say, in their order. */
export function metadataOf(
  { command }: { readonly command: ChatCommand },
  calls: readonly AnswerMetadata[],
): ChatMetadata {
  const { receipt: _, ...first } = calls[0] as ChatMetadata
  const receipts = calls.flatMap(({ receipt }) => receipt ?? [])
  return {
    ...first,
    latency_ms: Math.round(performance.now() - command.startedMs),
    request_id: command.requestId,
    ...(calls.some(({ usage_estimated: estimated }) => estimated === true) ? { usage_estimated: true } : {}),
    ...(calls.some(({ external }) => external === true) ? { external: true } : {}),
    receipt_hashes: calls.flatMap(({ receipt_hash: hash }) => hash ?? []),
    ...(receipts.length === 0 ? {} : { receipts }),
  }
}
