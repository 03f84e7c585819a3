import { brand } from '../../brand.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import { invoicePage, ledgerTotals, refundedTotal } from '../../db/queries/money/ledger-pages.ts'
import { Problem } from '../../errors.ts'
import { Invoice } from '../../protocol/wire/money/billing.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { cellsOf } from '../frame/csv.ts'
import { ledgerPlace, ledgerQuery, readLedgerRange, seqOf } from '../frame/ledger-range.ts'
import { allPages, type Place, pageOf, readCursor } from '../frame/page.ts'
import { invoiceLineView } from '../views/money.ts'
import { report } from './report.ts'

const query = { ...ledgerQuery, limit: limitOf(1_000, 10_000) } as const
const columns = [
  'entry_id',
  'created_at',
  'work_id',
  'kind',
  'model_id',
  'prompt_tokens',
  'completion_tokens',
  'amount_wei',
  'receipt_hash',
  'refunded_wei',
] as const

async function customerOf({ gateway }: HttpContext, customerId: string) {
  const row = await getCustomer(gateway.db, customerId)
  if (row === null) throw new Problem('customer_not_found')
  return row
}

/** What a customer pays for in a range, a line for each (§32): from the ledger, which is kept for ever. */
export const invoice = report({
  action: 'customer.invoice.export',
  tag: 'Money (extension)',
  summary: "Export a customer's invoice, a line per billed request",
  query,
  response: Invoice,
  read: async (context, { params, query, nowMs }) => {
    const { db } = context.gateway
    const row = await customerOf(context, params.customer_id ?? '')
    const range = readLedgerRange(query, row.customerId, nowMs)
    const totals = await ledgerTotals(db, range)
    const found = await invoicePage(db, range, seqOf(readCursor(query.cursor)), query.limit + 1)
    const { shown, page } = pageOf(found, query.limit, ledgerPlace)
    return {
      object: `${brand}.admin.customer_invoice` as const,
      generated_at: isoTime(nowMs),
      customer_id: row.customerId,
      display_name: row.displayName,
      refunded_wei: await refundedTotal(db, range),
      total_wei: String(totals.find(({ kind }) => kind === 'debit')?.amountWei ?? 0n),
      count: shown.length,
      ...page,
      lines: shown.map(invoiceLineView),
    }
  },
  deed: ({ params, query, format }) => ({
    targetId: params.customer_id ?? null,
    metadata: { format, window_days: query.window_days },
  }),
  csv: {
    name: 'invoice',
    columns,
    pages: async function* (context, { params, query, nowMs }, most) {
      const { customerId } = await customerOf(context, params.customer_id ?? '')
      const range = readLedgerRange(query, customerId, nowMs)
      const read = (after: Place | null, limit: number) => invoicePage(context.gateway.db, range, seqOf(after), limit)
      for await (const lines of allPages(readCursor(query.cursor), most, read, ledgerPlace)) {
        yield lines.map((line) => cellsOf(invoiceLineView(line), columns))
      }
    },
  },
})
