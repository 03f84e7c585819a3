import { groupSubject, type ReceiptMacs } from '../../../src/actors/log/receipt-macs.ts'
import type { OpenDatabase } from '../../../src/db/client.ts'
import { groupLine, insertReceiptGroups } from '../../../src/db/queries/money/receipt-groups.ts'
import { insertReceiptLines, type NewReceipt, receiptLine } from '../../../src/db/queries/money/receipts.ts'
import type { Receipt } from '../../../src/protocol/receipts/receipt.ts'
import { markedBy, testMacs } from './receipt-macs.ts'

/** As rows, as the gateway's writer writes those that may change. */
export function insertReceipts(
  database: Pick<OpenDatabase, 'sql'>,
  receipts: readonly NewReceipt[],
  macs: ReceiptMacs = testMacs,
): Promise<void> {
  const lines = receipts.map((receipt) => receiptLine(markedBy(macs, receipt)))
  return insertReceiptLines(database, { pieces: [Buffer.from(lines.join(''))], count: receipts.length })
}

/** As one group, as it writes free ones. */
export async function insertGroup(
  database: Pick<OpenDatabase, 'sql'>,
  receipts: readonly (NewReceipt & { readonly facts: Receipt })[],
): Promise<void> {
  const lines = receipts.map(groupLine)
  if (lines.includes(null)) throw new Error('a receipt of no group')
  await insertReceiptGroups(database, [lines.join('')], (...group) => testMacs.of(groupSubject(...group)))
}
