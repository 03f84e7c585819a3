import { and, desc, eq } from 'drizzle-orm'
import type { Database } from '../../client.ts'
import { payoutRows } from '../../schema/ledger.ts'
import { receiptRows } from '../../schema/work.ts'

/** Receipts on hold with what hangs on the decision, newest first. */
export async function heldReceipts(db: Database, limit: number) {
  return db
    .select({
      receiptHash: receiptRows.receiptHash,
      requestId: receiptRows.requestId,
      kind: receiptRows.kind,
      customerId: receiptRows.customerId,
      nodeId: receiptRows.nodeId,
      modelId: receiptRows.modelId,
      promptTokens: receiptRows.promptTokens,
      completionTokens: receiptRows.completionTokens,
      grossWei: payoutRows.grossWei,
      amountWei: payoutRows.amountWei,
      createdAt: receiptRows.createdAt,
    })
    .from(receiptRows)
    .leftJoin(payoutRows, eq(payoutRows.receiptHash, receiptRows.receiptHash))
    .where(and(eq(receiptRows.status, 'held'), eq(receiptRows.billed, true)))
    .orderBy(desc(receiptRows.createdAt), desc(receiptRows.receiptHash))
    .limit(limit)
}

export type HeldReceiptRow = Awaited<ReturnType<typeof heldReceipts>>[number]
