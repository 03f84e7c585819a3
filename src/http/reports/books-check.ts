import { brand } from '../../brand.ts'
import { approvedKinds, kindOf } from '../../protocol/money/kinds.ts'
import { BooksReport } from '../../protocol/wire/money/log.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'

/** "credit, refund and admin debit" */
const approved = new Intl.ListFormat('en-GB').format(approvedKinds.map((kind) => kindOf(kind).noun))

/** The books, recomputed row by row and compared with the public log (§31). */
export const booksCheck = report({
  action: 'ledger.check.read',
  tag: 'Money (extension)',
  summary: 'Recompute the books row by row, and compare them with the public log',
  description: `Each receipt’s hash and signature, each debit’s payout, fee and refund, the approval of each ${approved}, each batch, each part of the ledger and the whole log. Reads everything: for audits, not for a page.`,
  query: {},
  response: BooksReport,
  read: async ({ gateway }, { nowMs }) => {
    const { receipts, logEntries, unsigned, faults } = await gateway.checkBooks()
    return {
      object: `${brand}.admin.books_check` as const,
      generated_at: isoTime(nowMs),
      sound: faults.length === 0,
      receipts,
      log_entries: logEntries,
      unsigned_receipts: unsigned,
      faults: faults.map(({ rule, subject }) => ({ rule, subject })),
    }
  },
})
