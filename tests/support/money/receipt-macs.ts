import { createReceiptMacs, type ReceiptMacs, receiptSubject } from '../../../src/actors/log/receipt-macs.ts'
import type { OpenDatabase } from '../../../src/db/client.ts'
import type { MarkedReceipt, NewReceipt } from '../../../src/db/queries/money/receipts.ts'

/** Of the key with which test gateways sign their log. */
export const testMacs: ReceiptMacs = createReceiptMacs(['77'.repeat(32)])

export const markedBy = (macs: ReceiptMacs, receipt: NewReceipt): MarkedReceipt => ({
  ...receipt,
  mac: macs.of(receiptSubject(receipt)),
})
export const marked = (receipt: NewReceipt): MarkedReceipt => markedBy(testMacs, receipt)

/** Marks those rows that a test has written by itself, as the gateway's own. */
export async function markRows({ sql }: Pick<OpenDatabase, 'sql'>): Promise<void> {
  const rows = await sql<{ hash: string; customerId: string }[]>`
    select receipt_hash as hash, customer_id as "customerId" from receipt_rows where mac is null`
  const marks = rows.map((row) => [row.hash, testMacs.of(receiptSubject(row))])
  await sql`update receipt_rows r set mac = m.mac from (select value ->> 0 as hash, value ->> 1 as mac
    from json_array_elements(${JSON.stringify(marks)}::text::json)) m where r.receipt_hash = m.hash`
}
/** The mark of one, as a text. */
export const markOf = (hash: string, customerId: string): string => testMacs.of(receiptSubject({ hash, customerId }))
