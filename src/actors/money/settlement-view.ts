import type { Database } from '../../db/client.ts'
import * as rows from '../../db/queries/money/public-settlement.ts'
import { fromHex, MerkleTree, zeroRoot } from '../../protocol/receipts/merkle.ts'
import { secondMs } from '../../time.ts'
import { createSnapshot } from '../durable/snapshot.ts'

/** Everything that the public settlement report reads from the database, at one moment. */
export interface SettlementView {
  readonly receipts: readonly rows.PublicReceipt[]
  readonly batches: readonly rows.BatchRow[]
  readonly receiptCounts: rows.ReceiptCounts
  readonly payoutCounts: readonly rows.PayoutCounts[]
  readonly batchCounts: readonly rows.BatchCounts[]
  readonly pendingReceipts: number
  readonly pendingRoot: string
  /** The siblings of a receipt below `pendingRoot`, or null if the root does not contain it. */
  readonly proofOf: (receiptHash: string) => readonly string[] | null
  readonly latestFinalizedPayoutAt: Date | null
}

/** The largest lists that a caller may ask for (§17). */
export const publicReceiptsMax = 200
export const publicBatchesMax = 100
const viewKeptMs = 15 * secondMs

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve))

/** Read at most every 15 s, however many ask (§14). */
export function createSettlementView(db: Database): () => Promise<SettlementView> {
  return createSnapshot(viewKeptMs, async () => {
    // Everything is read in one snapshot of the database, so that the counts fit the list behind the root.
    const { hashes, ...view } = await db.transaction(
      async (tx) => ({
        hashes: await rows.pendingReceiptHashes(tx),
        receipts: await rows.publicReceipts(tx, publicReceiptsMax),
        batches: await rows.listBatches(tx, publicBatchesMax),
        receiptCounts: await rows.receiptCounts(tx),
        payoutCounts: await rows.payoutCounts(tx),
        batchCounts: await rows.batchCounts(tx),
        latestFinalizedPayoutAt: await rows.latestFinalizedPayout(tx),
      }),
      { isolationLevel: 'repeatable read', accessMode: 'read only' },
    )
    const tree = await MerkleTree.ofHashes(hashes, nextTurn)
    return {
      ...view,
      pendingReceipts: hashes.length,
      pendingRoot: tree?.root() ?? zeroRoot,
      proofOf: (hash) => tree?.proof(fromHex(hash, 32)) ?? null,
    }
  })
}
