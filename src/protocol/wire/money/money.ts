import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { enteringKinds, followingKinds, sumFields } from '../../money/moves.ts'
import { count, hash, Instant, literals, NullableInstant, nullable, reason, strict, wei } from '../shapes.ts'
import { workKinds } from '../work-kinds.ts'
import { receiptStatus } from './receipt.ts'

const nullableText = nullable(Type.String())
const ok = Type.Literal('ok')

/** Public groups; what an operator rejected is in none. */
export const settlementStatuses = ['pending', 'batched', 'submitting', 'submitted', 'finalized'] as const
export const batchStatuses = ['created', 'submitting', 'submitted', 'completed'] as const
export type BatchStatus = (typeof batchStatuses)[number]

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
  totals: Type.Object({
    customer_debits_wei: wei,
    customer_refunds_wei: Type.Unsafe<string>({ ...wei, description: 'Given back of these debits' }),
    node_payouts_wei: wei,
    protocol_fees_wei: wei,
  }),
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
      request_id: Type.Optional(
        nullable(Type.String({ description: 'Of the call that earned it. Absent: of a gateway of a version before' })),
      ),
      payee: nullable(
        Type.String({ description: 'The address that is paid, fixed when it was earned; null: the node had none yet' }),
      ),
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
          kind: literals(workKinds),
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

/** Payout batches as operators see them (§23). */
const adminBatchFields = {
  ...batchFields,
  attempts: count,
  held: Type.Boolean({ description: 'The batch reverted too often and waits for an operator' }),
  last_error: nullableText,
}
export const PayoutBatch = Type.Object(adminBatchFields)
export type PayoutBatch = Static<typeof PayoutBatch>
export const PayoutBatchList = Type.Object({
  object: Type.Literal(`${brand}.admin.payout_batch_list`),
  generated_at: Instant,
  count,
  settlement_configured: Type.Boolean({
    description: 'false means that no blockchain is configured, so batches stay as they are',
  }),
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

/** The proof with which a node claims its payout, and with which anyone checks it: `verify payout` (§24). */
export const PayoutProof = Type.Object({
  object: Type.Literal(`${brand}.payout_proof`),
  batch_id: Type.String(),
  entry_id: Type.String(),
  payout_id: nullable(hash),
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

/** Of one node, for itself (§31). */
export const NodePayoutProofs = Type.Object({
  object: Type.Literal(`${brand}.payout_proofs`),
  node_id: Type.String(),
  count,
  proofs: Type.Array(PayoutProof),
})

/** The leaves of one batch, public (§31). */
export const PayoutLeaves = Type.Object({
  object: Type.Literal(`${brand}.payout_leaves`),
  batch_id: Type.String(),
  merkle_root: hash,
  payout_count: count,
  total_amount_wei: wei,
  proofs: Type.Array(PayoutProof),
})

export const LedgerProof = Type.Object({
  object: Type.Literal(`${brand}.admin.ledger_proof`),
  generated_at: Instant,
  balanced: Type.Boolean(),
  broken_rules: Type.Array(Type.String()),
  ...sumFields(enteringKinds, () => wei),
  balances_wei: wei,
  ...sumFields(followingKinds, () => wei),
  payouts_wei: wei,
  fees_wei: wei,
  reserved_wei: wei,
  open_reservations_wei: wei,
  leased_wei: wei,
  leases_wei: wei,
  entries: count,
  customers_off: count,
  entries_off: count,
})
export type LedgerProof = Static<typeof LedgerProof>
