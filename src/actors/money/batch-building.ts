import type { Database } from '../../db/client.ts'
import { insertBatch, type PayablePayout, type PayoutBatchRow } from '../../db/queries/money/payout-batches.ts'
import { newId } from '../../ids.ts'
import { MerkleTree, payoutLeafOf } from '../../protocol/receipts/merkle.ts'

export interface BuiltBatch {
  /** null after a dry run, or if there was nothing to batch. */
  readonly batch: PayoutBatchRow | null
  readonly payoutCount: number
  readonly totalAmountWei: bigint
  readonly withoutAddress: number
  readonly merkleRoot: string | null
}

type Payable = PayablePayout & { readonly payee: string }

/** Builds one batch of all payouts that have an address. A dry run only returns what the batch would be. */
export async function buildBatch(
  tx: Database,
  pending: readonly PayablePayout[],
  dryRun: boolean,
): Promise<BuiltBatch> {
  const members = pending.filter((payout): payout is Payable => payout.payee !== null)
  const withoutAddress = pending.length - members.length
  if (members.length === 0) {
    return { batch: null, payoutCount: 0, totalAmountWei: 0n, withoutAddress, merkleRoot: null }
  }
  const merkleRoot = MerkleTree.of(members.map(payoutLeafOf)).root()
  const totalAmountWei = members.reduce((sum, { amountWei }) => sum + amountWei, 0n)
  const batch = dryRun ? null : await insertBatch(tx, { batchId: newId('bat'), merkleRoot, totalAmountWei }, members)
  return { batch, payoutCount: members.length, totalAmountWei, withoutAddress, merkleRoot }
}
