import type { OpenDatabase } from '../../../src/db/client.ts'
import { insertReceiptLines, type NewReceipt, receiptLine } from '../../../src/db/queries/money/receipts.ts'

/** As the gateway's writer does it. */
export const insertReceipts = (database: Pick<OpenDatabase, 'sql'>, receipts: readonly NewReceipt[]): Promise<void> =>
  insertReceiptLines(database, { pieces: [Buffer.from(receipts.map(receiptLine).join(''))], count: receipts.length })
