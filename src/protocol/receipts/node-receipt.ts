import type { VerifyKey } from '../signing/ed25519.ts'
import { freshSeconds, receiptMessage } from '../signing/signatures.ts'
import { type Receipt, receiptText, textHash } from './receipt.ts'

/** The facts that the gateway itself saw. Only the times come from the node. */
export type SeenWork = Omit<Receipt, 'issuer' | 'startedAt' | 'completedAt'>

export interface VouchedReceipt {
  readonly text: string
  readonly hash: string
  readonly signature: string
}

const instant = /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$/
type Fields = Readonly<Record<string, unknown>>
const fieldsOf = (value: unknown): Fields => (typeof value === 'object' && value !== null ? (value as Fields) : {})
const timeOf = (value: unknown) => (typeof value === 'string' && instant.test(value) ? Date.parse(value) : Number.NaN)

/**
 * The receipt that a node put into `svc`, if it is about this very work and the node's own (§14). It is made
 * anew of what was seen here: where its hash is the node's, every field is. null where anything differs.
 */
export function readNodeReceipt(svc: unknown, seen: SeenWork, key: VerifyKey, nowMs: number): VouchedReceipt | null {
  const { receipt_hash: told, receipt, signature_ed25519: signature } = fieldsOf(svc)
  const { started_at: startedAt, completed_at: completedAt } = fieldsOf(receipt)
  if (typeof told !== 'string' || typeof signature !== 'string') return null
  if (typeof startedAt !== 'string' || typeof completedAt !== 'string') return null
  const [startedMs, completedMs] = [timeOf(startedAt), timeOf(completedAt)]
  // The node's clock may differ as much as its signatures allow. NaN passes no comparison.
  if (!(startedMs <= completedMs && Math.abs(nowMs - completedMs) <= freshSeconds * 1_000)) return null
  const text = receiptText({ ...seen, issuer: 'node', startedAt, completedAt })
  const hash = textHash(text)
  if (hash !== told || !key.verify(receiptMessage(hash), signature)) return null
  return { text, hash, signature }
}
