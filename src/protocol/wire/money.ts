import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../brand.ts'
import { GatewayPolicy } from './policy.ts'
import { Instant, NullableInstant } from './report.ts'
import { count, literals, nullable, reason, strict, wei } from './shapes.ts'

const nullableText = nullable(Type.String())
const ok = Type.Literal('ok')
/** `0x` and 64 hex digits. */
const hash = Type.String({ pattern: '^0x[0-9a-f]{64}$' })

const ledgerKinds = ['admin_credit', 'reserve', 'release', 'debit'] as const
/** Public groups; what an operator rejected is in none. */
export const settlementStatuses = ['pending', 'batched', 'submitting', 'submitted', 'finalized'] as const
export const payoutKinds = ['hosted_chat', 'private_job'] as const
export const batchStatuses = ['created', 'submitting', 'submitted', 'completed'] as const
const receiptStatus = literals(['accepted', 'held', 'rejected', 'batched', 'finalized'])
export type BatchStatus = (typeof batchStatuses)[number]

const LedgerTotal = Type.Object({ kind: literals(ledgerKinds), count, amount_wei: wei })
const LedgerEntry = Type.Object({
  entry_id: Type.String(),
  private_job_id: nullableText,
  receipt_hash: nullableText,
  kind: literals(ledgerKinds),
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  created_at: Instant,
})
export type LedgerEntry = Static<typeof LedgerEntry>
const usageFields = { totals: Type.Array(LedgerTotal), entries: Type.Array(LedgerEntry) }

/** Endpoint 12. */
export const CustomerUsage = Type.Object({
  status: ok,
  customer_id: Type.String(),
  generated_at: Instant,
  ...usageFields,
})
export type CustomerUsage = Static<typeof CustomerUsage>

/** Endpoint 13. */
export const UsageExport = Type.Object({
  object: Type.Literal(`${brand}.admin.customer_usage_export`),
  generated_at: Instant,
  export_policy: Type.Literal('customer_usage_export_v1'),
  contains_request_content: Type.Boolean(),
  customer: Type.Object({
    customer_id: Type.String(),
    display_name: Type.String(),
    account_status: Type.String(),
    balance_wei: wei,
    reserved_wei: wei,
    available_wei: wei,
    created_at: Instant,
  }),
  usage: Type.Object(usageFields),
})
export type UsageExport = Static<typeof UsageExport>

/** Endpoint 11. */
export const CustomerAccount = Type.Object({
  status: ok,
  customer_id: Type.String(),
  display_name: Type.String(),
  account_status: literals(['active', 'suspended', 'closed']),
  balance_wei: wei,
  reserved_wei: wei,
  available_wei: wei,
  gateway_policy: nullable(GatewayPolicy),
})

/** Endpoint 14. */
export const CreditRequest = Type.Object(
  {
    credit_id: Type.Optional(
      Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$', description: 'Your id: the same one credits once' }),
    ),
    amount_wei: Type.String({ pattern: '^[1-9][0-9]{0,77}$', description: 'Whole wei, at least 1' }),
    reason,
  },
  strict,
)
export const Credit = Type.Object({
  status: Type.Literal('credited'),
  customer_id: Type.String(),
  credit_id: Type.String(),
  amount_wei: wei,
  balance_after_wei: wei,
  reserved_after_wei: wei,
  reason: nullableText,
  created_at: Instant,
})
export type Credit = Static<typeof Credit>

const SettlementGroup = Type.Object({
  settlement_status: literals(settlementStatuses),
  payout_count: count,
  /** The nodes' share. */
  total_payout_wei: wei,
  /** Share and fee. */
  total_amount_wei: wei,
})
export type SettlementGroup = Static<typeof SettlementGroup>

/** Endpoint 15. */
export const TreasuryReport = Type.Object({
  status: ok,
  generated_at: Instant,
  window_days: Type.Integer(),
  totals: Type.Object({ customer_debits_wei: wei, node_payouts_wei: wei, protocol_fees_wei: wei }),
  settlement_statuses: Type.Array(SettlementGroup),
  recent_protocol_fees: Type.Array(
    Type.Object({
      entry_id: Type.String(),
      private_job_id: nullableText,
      receipt_hash: nullableText,
      amount_wei: wei,
      settlement_status: literals(settlementStatuses),
      created_at: Instant,
    }),
  ),
})
export type TreasuryReport = Static<typeof TreasuryReport>

/** Endpoint 8. */
export const NodePayoutReport = Type.Object({
  status: ok,
  node_id: Type.String(),
  generated_at: Instant,
  summary: Type.Object({ total_payout_wei: wei, settlement_statuses: Type.Array(SettlementGroup) }),
  payouts: Type.Array(
    Type.Object({
      entry_id: Type.String(),
      private_job_id: nullableText,
      receipt_hash: Type.String(),
      amount_wei: wei,
      status: literals(['accrued', 'held', 'paid']),
      settlement_status: literals(settlementStatuses),
      payout_batch_id: nullableText,
      settled_at: NullableInstant,
      created_at: Instant,
      updated_at: Instant,
    }),
  ),
})
export type NodePayoutReport = Static<typeof NodePayoutReport>

/** Endpoint 5. */
export const Pricing = Type.Object({
  object: Type.Literal(`${brand}.pricing`),
  generated_at: Instant,
  currency: Type.Literal('wei'),
  max_price_field: Type.Literal('max_price_wei'),
  private_inference: Type.Object({
    enabled: Type.Boolean(),
    policy_version: Type.Literal('private_inference_v1'),
    quote: Type.Object({
      unit: Type.Literal('request'),
      base_price_wei: wei,
      prompt_token_price_wei: wei,
      completion_token_price_wei: wei,
      min_price_wei: wei,
      max_price_wei: wei,
    }),
    billing_policy: Type.Object({
      own_machine: Type.Literal('free'),
      reserve_on: Type.Literal('dispatch'),
      settle_on: Type.Literal('completed'),
      release_on: Type.Array(literals(['failed', 'expired', 'cancelled'])),
    }),
    node_payout: Type.Object({
      node_share_bps: Type.Integer(),
      protocol_fee_bps: Type.Integer(),
      payout_currency: Type.Literal('wei'),
      min_batch_wei: wei,
    }),
  }),
})
export type Pricing = Static<typeof Pricing>

const usd = Type.String({ pattern: '^[0-9]+(\\.[0-9]+)?$', description: 'USD, decimal, never with an exponent' })
const modalities = Type.Array(literals(['text', 'image', 'file', 'audio']))

/** Endpoint 10. */
export const Marketplace = Type.Object({
  data: Type.Array(
    Type.Object({
      id: Type.String(),
      name: Type.String(),
      created: count,
      description: Type.String(),
      input_modalities: modalities,
      output_modalities: modalities,
      context_length: count,
      max_output_length: count,
      is_ready: Type.Boolean(),
      pricing: Type.Object({ prompt: usd, completion: usd, image: usd, request: usd, input_cache_read: usd }),
    }),
  ),
})
export type Marketplace = Static<typeof Marketplace>

const batchFields = {
  batch_id: Type.String(),
  merkle_root: hash,
  payout_count: count,
  total_amount_wei: wei,
  status: literals(batchStatuses),
  submitted_tx_hash: nullableText,
  created_at: Instant,
  submitted_at: NullableInstant,
  completed_at: NullableInstant,
  finalized_at: NullableInstant,
  settlement_block_number: nullableText,
  settlement_block_hash: nullableText,
}

/** Endpoint 9. */
export const PublicSettlement = Type.Object({
  protocol: Type.Object({
    name: Type.Literal(brand),
    version: Type.Literal('1'),
    receipt_version: Type.String(),
    receipt_hash: Type.Literal('keccak256-jcs'),
    merkle: Type.Literal('oz-standard-v1'),
    leaf_encoding: Type.Array(Type.String()),
    node_share_bps: Type.Integer(),
    protocol_fee_bps: Type.Integer(),
  }),
  payout_settlement: Type.Object({
    network_name: Type.String(),
    chain_id: Type.String(),
    rpc_url: Type.String(),
    explorer_url: Type.String(),
    contract_address: Type.String(),
    event_topic: Type.String(),
  }),
  summary: Type.Object({
    accepted_receipts: count,
    pending_receipts: count,
    pending_root: hash,
    latest_receipt_at: NullableInstant,
    settlement_ready: Type.Boolean(),
    payouts: Type.Object({
      total_payouts: count,
      pending_payouts: count,
      batched_payouts: count,
      submitting_payouts: count,
      submitted_payouts: count,
      finalized_payouts: count,
      latest_payout_at: NullableInstant,
      latest_finalized_payout_at: NullableInstant,
      by_kind: Type.Array(
        Type.Object({
          kind: literals(payoutKinds),
          total_payouts: count,
          pending_payouts: count,
          finalized_payouts: count,
          latest_payout_at: NullableInstant,
        }),
      ),
    }),
    payout_batches: Type.Object({
      total_batches: count,
      created_batches: count,
      submitting_batches: count,
      submitted_batches: count,
      completed_batches: count,
      latest_batch_at: NullableInstant,
      latest_finalized_batch_at: NullableInstant,
    }),
  }),
  receipts: Type.Array(
    Type.Object({
      receipt_hash: hash,
      node_id: Type.String(),
      job_id: Type.String(),
      node_class: Type.String(),
      model_id: Type.String(),
      status: receiptStatus,
      received_at: Instant,
      batch_id: nullableText,
    }),
  ),
  payout_batches: Type.Array(Type.Object(batchFields)),
})
export type PublicSettlement = Static<typeof PublicSettlement>

/** Payout batches as operators see them (decisions §23). */
const adminBatchFields = {
  ...batchFields,
  attempts: count,
  held: Type.Boolean({ description: 'It reverted too often and waits for an operator' }),
  last_error: nullableText,
}
export const PayoutBatch = Type.Object(adminBatchFields)
export type PayoutBatch = Static<typeof PayoutBatch>
export const PayoutBatchList = Type.Object({
  object: Type.Literal(`${brand}.admin.payout_batch_list`),
  generated_at: Instant,
  count,
  settlement_configured: Type.Boolean({ description: 'false: no chain; batches rest as they are' }),
  batches: Type.Array(PayoutBatch),
})
export type PayoutBatchList = Static<typeof PayoutBatchList>
export const PayoutBatchCreate = Type.Object({ dry_run: Type.Optional(Type.Boolean()), reason }, strict)
export const PayoutBatchCreated = Type.Object({
  object: Type.Literal(`${brand}.admin.payout_batch`),
  status: literals(['created', 'dry_run', 'nothing_pending']),
  payout_count: count,
  total_amount_wei: wei,
  /** Payouts that cannot be paid because their node has no payout address. */
  without_address: count,
  merkle_root: nullableText,
  batch: nullable(PayoutBatch),
})
export type PayoutBatchCreated = Static<typeof PayoutBatchCreated>

/** What a node needs to claim its payout, and anybody to check it: `verify payout` (decisions §24). */
export const PayoutProof = Type.Object({
  object: Type.Literal(`${brand}.payout_proof`),
  batch_id: Type.String(),
  entry_id: Type.String(),
  payee: Type.String(),
  amount_wei: wei,
  leaf: hash,
  proof: Type.Array(hash),
  merkle_root: hash,
  submitted_tx_hash: nullableText,
})
export type PayoutProof = Static<typeof PayoutProof>
export const PayoutProofList = Type.Object({
  object: Type.Literal(`${brand}.admin.payout_proof_list`),
  generated_at: Instant,
  count,
  proofs: Type.Array(PayoutProof),
})

export const ReceiptDecision = Type.Object({
  object: Type.Literal(`${brand}.admin.receipt`),
  receipt_hash: hash,
  status: receiptStatus,
})

const inclusionFields = {
  receipt_hash: hash,
  status: receiptStatus,
  received_at: Instant,
  batch_id: nullableText,
  pending_root: hash,
  proof: nullable(
    Type.Array(hash, { description: 'Siblings from the hash up to `pending_root`; null where it is not below it' }),
  ),
}
/** That a billed receipt stands below the public root; anybody may ask (decisions §14). */
export const ReceiptProof = Type.Object({ object: Type.Literal(`${brand}.receipt_proof`), ...inclusionFields })
export type ReceiptProof = Static<typeof ReceiptProof>

/** The facts that are hashed, in their wire names. */
const ReceiptFacts = Type.Object({
  completed_at: Instant,
  completion_tokens: count,
  issuer: literals(['node', 'gateway']),
  job_id: nullableText,
  kind: literals(payoutKinds),
  model_id: Type.String(),
  node_class: Type.String(),
  node_id: Type.String(),
  prompt_tokens: count,
  request_id: Type.String(),
  runtime_id: Type.String(),
  runtime_kind: Type.String(),
  started_at: Instant,
  v: Type.String(),
})
/** One receipt for the customer whose work it was: all that `verify receipt` needs. */
export const CustomerReceipt = Type.Object({
  object: Type.Literal(`${brand}.receipt`),
  ...inclusionFields,
  billed: Type.Boolean(),
  receipt: ReceiptFacts,
  signature_ed25519: nullableText,
  public_key: nullable(Type.String({ description: "The node's Ed25519 key, base64url; null without a signature" })),
})
export type CustomerReceipt = Static<typeof CustomerReceipt>

export const LedgerProof = Type.Object({
  object: Type.Literal(`${brand}.admin.ledger_proof`),
  generated_at: Instant,
  balanced: Type.Boolean(),
  broken_rules: Type.Array(Type.String()),
  credits_wei: wei,
  balances_wei: wei,
  debits_wei: wei,
  payouts_wei: wei,
  fees_wei: wei,
  reserved_wei: wei,
  open_reservations_wei: wei,
  entries: count,
  customers_off: count,
  entries_off: count,
})
export type LedgerProof = Static<typeof LedgerProof>
