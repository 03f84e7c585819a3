import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { BatchProof, PayoutBatch } from '../../actors/money/settlement.ts'
import { brand } from '../../brand.ts'
import type { CustomerRow } from '../../db/queries/accounts/accounts.ts'
import { heldReceipts } from '../../db/queries/money/held-receipts.ts'
import type { LedgerEntry as LedgerEntryRow } from '../../db/queries/money/ledger.ts'
import type { InvoiceLine as InvoiceLineRow, KindTotal } from '../../db/queries/money/ledger-pages.ts'
import type { SettlementGroup as GroupRow } from '../../db/queries/money/payouts.ts'
import { type BatchRow, listBatches } from '../../db/queries/money/public-settlement.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import type { InvoiceLine, LedgerEntry } from '../../protocol/wire/money/billing.ts'
import type { SettlementGroup } from '../../protocol/wire/money/money.ts'
import type { HeldReceipt } from '../../protocol/wire/money/receipt.ts'
import { dayMs, isoTime } from '../../time.ts'

export const instant = (at: Date | null) => (at === null ? null : isoTime(at))
export const windowStart = (nowMs: number, windowDays: number) => new Date(nowMs - windowDays * dayMs)

/** What a customer has, and what of it is set aside. What is leased (docs/decisions/0051) counts as reserved, and is said to. */
export function balanceView({
  balanceWei,
  reservedWei,
  leasedWei,
}: Pick<CustomerRow, 'balanceWei' | 'reservedWei' | 'leasedWei'>) {
  return {
    balance_wei: balanceWei.toString(),
    reserved_wei: (reservedWei + leasedWei).toString(),
    available_wei: (balanceWei - reservedWei - leasedWei).toString(),
    ...(leasedWei > 0n ? { reserved_includes_leases: true as const } : {}),
  }
}

export function ledgerEntryView(row: LedgerEntryRow): LedgerEntry {
  return {
    entry_id: row.entryId,
    private_job_id: row.privateJobId,
    receipt_hash: row.receiptHash,
    kind: row.kind,
    amount_wei: row.amountWei.toString(),
    balance_after_wei: row.balanceAfterWei.toString(),
    reserved_after_wei: row.reservedAfterWei.toString(),
    created_at: isoTime(row.createdAt),
  }
}

export function usageView(usage: {
  readonly totals: readonly KindTotal[]
  readonly entries: readonly LedgerEntryRow[]
}) {
  return {
    totals: usage.totals.map(({ kind, count, amountWei }) => ({ kind, count, amount_wei: amountWei.toString() })),
    entries: usage.entries.map(ledgerEntryView),
  }
}

export const invoiceLineView = (line: InvoiceLineRow): InvoiceLine => ({
  entry_id: line.entryId,
  created_at: isoTime(line.createdAt),
  work_id: line.workId,
  kind: line.kind,
  model_id: line.modelId,
  prompt_tokens: line.promptTokens,
  completion_tokens: line.completionTokens,
  amount_wei: line.amountWei.toString(),
  refunded_wei: line.refundedWei,
  receipt_hash: line.receiptHash,
})

export function groupView(row: GroupRow): SettlementGroup {
  return {
    settlement_status: row.settlementStatus,
    payout_count: row.payoutCount,
    total_payout_wei: row.payoutWei.toString(),
    total_amount_wei: row.grossWei.toString(),
  }
}

export function batchView(row: BatchRow) {
  return {
    batch_id: row.batchId,
    merkle_root: row.merkleRoot,
    payout_count: row.payoutCount,
    total_amount_wei: row.totalAmountWei.toString(),
    status: row.status,
    submitted_tx_hash: row.submittedTxHash,
    created_at: isoTime(row.createdAt),
    submitted_at: instant(row.submittedAt),
    completed_at: instant(row.completedAt),
    finalized_at: instant(row.finalizedAt),
    settlement_block_number: row.settlementBlockNumber,
    settlement_block_hash: row.settlementBlockHash,
  }
}

export const adminBatchView = (row: BatchRow) => ({
  ...batchView(row),
  attempts: row.attempts,
  held: row.held,
  last_error: row.lastError,
})

/** A viewer does not see whose work it was. */
export const heldReceiptViews = async (
  { db }: Pick<GatewayHandle, 'db'>,
  limit: number,
  role: AdminRole,
): Promise<readonly HeldReceipt[]> =>
  (await heldReceipts(db, limit)).map((row) => ({
    receipt_hash: row.receiptHash,
    request_id: row.requestId,
    kind: row.kind,
    node_id: row.nodeId,
    model_id: row.modelId,
    customer_id: role === 'viewer' ? null : row.customerId,
    prompt_tokens: row.promptTokens,
    completion_tokens: row.completionTokens,
    debit_wei: row.grossWei?.toString() ?? null,
    payout_wei: row.amountWei?.toString() ?? null,
    held_since: isoTime(row.createdAt),
  }))

export const adminBatches = async ({ db }: Pick<GatewayHandle, 'db'>, limit: number) =>
  (await listBatches(db, limit)).map(adminBatchView)

/** What a payee needs to claim, and anybody to check. */
export const payoutProofView = (batch: PayoutBatch, proof: BatchProof) => ({
  object: `${brand}.payout_proof` as const,
  batch_id: batch.batchId,
  entry_id: proof.entryId,
  payout_id: proof.payoutId,
  payee: proof.payee,
  amount_wei: proof.amountWei.toString(),
  leaf: proof.leaf,
  proof: [...proof.proof],
  merkle_root: batch.merkleRoot,
  submitted_tx_hash: batch.submittedTxHash,
})
