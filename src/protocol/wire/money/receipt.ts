import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, hash, Instant, literals, nullable, wei } from '../shapes.ts'
import { workKinds } from '../work-kinds.ts'
import { LogCutoff } from './log.ts'

const nullableText = nullable(Type.String())
export const receiptStatus = literals(['accepted', 'held', 'rejected', 'batched', 'finalized'])

export const ReceiptDecision = Type.Object({
  object: Type.Literal(`${brand}.admin.receipt`),
  receipt_hash: hash,
  status: receiptStatus,
  refunded_wei: Type.Unsafe<string>({ ...wei, description: 'What its customer has back' }),
})

/** A receipt that waits for a decision of an admin (§5), and what hangs on it. */
export const HeldReceipt = Type.Object({
  receipt_hash: hash,
  request_id: Type.String(),
  kind: literals(workKinds),
  node_id: Type.String(),
  model_id: Type.String(),
  customer_id: nullable(Type.String({ description: 'null: for a viewer' })),
  prompt_tokens: count,
  completion_tokens: count,
  debit_wei: nullable(
    Type.Unsafe<string>({ ...wei, description: 'What its customer has paid, and gets back if it is rejected' }),
  ),
  payout_wei: nullable(Type.Unsafe<string>({ ...wei, description: 'What its node gets if it is released' })),
  held_since: Instant,
})
export type HeldReceipt = Static<typeof HeldReceipt>
export const HeldReceiptList = Type.Object({
  object: Type.Literal(`${brand}.admin.held_receipt_list`),
  generated_at: Instant,
  count,
  receipts: Type.Array(HeldReceipt),
})
export type HeldReceiptList = Static<typeof HeldReceiptList>

const inclusionFields = {
  receipt_hash: hash,
  status: receiptStatus,
  received_at: Instant,
  batch_id: nullableText,
  pending_root: nullable(hash),
  proof: nullable(
    Type.Array(hash, {
      description:
        'Siblings from the hash up to `pending_root`, or null if the hash is not below it. Both are null of work that is free, on hold or in a batch',
    }),
  ),
}
/** Proves that the public root includes a billed receipt. Public (§14). */
export const ReceiptProof = Type.Object({ object: Type.Literal(`${brand}.receipt_proof`), ...inclusionFields })
export type ReceiptProof = Static<typeof ReceiptProof>

/** The facts that are hashed, in their wire names. */
const ReceiptFacts = Type.Object({
  completed_at: Instant,
  completion_tokens: count,
  issuer: literals(['node', 'gateway']),
  job_id: nullableText,
  kind: literals(workKinds),
  model_id: Type.String(),
  node_class: Type.String(),
  node_id: Type.String(),
  prompt_tokens: count,
  request_id: Type.String(),
  runtime_id: Type.String(),
  runtime_kind: Type.String(),
  started_at: Instant,
  client_nonce: Type.Optional(Type.String()),
  request_commitment: Type.Optional(nullable(hash)),
  response_commitment: Type.Optional(nullable(hash)),
  upstream_model_commitment: Type.Optional(nullable(hash)),
  issued_at: Type.Optional(Instant),
  v: Type.String(),
})
/** One receipt for the customer whose work it was: all that `verify receipt` needs. */
export const CustomerReceipt = Type.Object({
  object: Type.Literal(`${brand}.receipt`),
  ...inclusionFields,
  billed: Type.Boolean(),
  receipt: ReceiptFacts,
  signature_ed25519: nullableText,
  public_key: nullable(
    Type.String({ description: 'The node’s Ed25519 key in base64url, or null without a signature' }),
  ),
  node_key: Type.Optional(
    nullable(
      Type.String({
        description:
          'Of a receipt of the gateway: the key of its node, which could have signed it. Null without an agent',
      }),
    ),
  ),
  /** What the node has signed in place of it; null: nothing, or the receipt itself is the node's. */
  node_receipt: nullable(Type.Object({ receipt: ReceiptFacts, receipt_hash: hash, signature_ed25519: Type.String() })),
  /** null: not in the log yet. */
  log: nullable(
    Type.Object({
      index: count,
      size: count,
      signature_ed25519: nullable(
        Type.String({ description: "By the log's key, of a receipt that the gateway issued" }),
      ),
      logged_at: nullable(
        Type.Unsafe<string>({
          ...Instant,
          description: 'Since when the log holds it; null: a version before wrote it',
        }),
      ),
      log_proof: Type.String({ description: 'Its place and the checkpoint, as C2SP `tlog-proof` writes it' }),
      /** Of a receipt in a node's name without its signature: null unless it is from before nodes signed all. */
      cutoff: Type.Optional(nullable(LogCutoff)),
    }),
  ),
})
export type CustomerReceipt = Static<typeof CustomerReceipt>
