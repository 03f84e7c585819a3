import { canonicalJson } from '../json/canonical-json.ts'
import { isWellFormed } from '../json/well-formed.ts'
import type { VerifyKey } from '../signing/ed25519.ts'
import { receiptMessage } from '../signing/signatures.ts'
import { type Receipt, receiptText, receiptVersions, textHash, versionOf } from './receipt.ts'
import { areTimesOfWork, type SeenSpan } from './receipt-times.ts'

/** The facts that the gateway itself saw. Only the times come from the node. */
export type SeenWork = Omit<Receipt, 'issuer' | 'startedAt' | 'completedAt' | 'issuedAt'>

export interface VouchedReceipt {
  readonly text: string
  readonly hash: string
  readonly signature: string
  /** What `text` says. */
  readonly facts: Receipt
}

type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})

/**
 * The receipt that a node put into `svc`, if it is about this very work and the node's own (§14). It is made
 * anew of what was seen here: where its hash is the node's, every field is. null where anything differs.
 */
export function readNodeReceipt(svc: unknown, seen: SeenWork, key: VerifyKey, span: SeenSpan): VouchedReceipt | null {
  const { receipt_hash: receiptHash, receipt, signature_ed25519: signature } = fieldsOf(svc)
  const { started_at: startedAt, completed_at: completedAt, issued_at: issuedAt = null } = fieldsOf(receipt)
  if (typeof receiptHash !== 'string' || typeof signature !== 'string') return null
  if (typeof startedAt !== 'string' || typeof completedAt !== 'string') return null
  if (issuedAt !== null && typeof issuedAt !== 'string') return null
  const facts: Receipt = { ...seen, issuer: 'node', startedAt, completedAt, issuedAt }
  if (!areTimesOfWork(facts, span)) return null
  const text = receiptText(facts)
  const hash = textHash(text)
  if (hash !== receiptHash || !key.verify(receiptMessage(hash, versionOf(facts)), signature)) return null
  return { text, hash, signature, facts }
}

/** Far more than any receipt of ours, UTF-16 units. */
const keptUnitsMax = 4_096

/**
 * The receipt that a node has signed for this call, though it says something else than the gateway saw (a clamp, a broken
 * stream, a version without commitments). It is kept beside the gateway's own, as JSON; null: there is none.
 */
export function besideReceipt(
  svc: unknown,
  { requestId, nodeId }: Pick<Receipt, 'requestId' | 'nodeId'>,
  key: VerifyKey,
): string | null {
  const { receipt_hash: receiptHash, receipt, signature_ed25519: signature } = fieldsOf(svc)
  const facts = fieldsOf(receipt)
  if (typeof receiptHash !== 'string' || typeof signature !== 'string' || !receiptVersions.has(facts.v)) return null
  if (!isWellFormed(facts) || facts.issuer !== 'node' || facts.request_id !== requestId || facts.node_id !== nodeId)
    return null
  const text = canonicalJson(facts)
  if (text.length > keptUnitsMax || textHash(text) !== receiptHash) return null
  if (!key.verify(receiptMessage(receiptHash, String(facts.v)), signature)) return null
  return `{"receipt":${text},"receipt_hash":"${receiptHash}","signature_ed25519":${JSON.stringify(signature)}}`
}
