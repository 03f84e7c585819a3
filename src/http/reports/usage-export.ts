import { brand } from '../../brand.ts'
import { ledgerPage, ledgerTotals } from '../../db/queries/money/ledger-pages.ts'
import { Problem } from '../../errors.ts'
import { UsageExport } from '../../protocol/wire/money/billing.ts'
import { limitOf } from '../../protocol/wire/query.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { cellsOf } from '../frame/csv.ts'
import { ledgerPlace, ledgerQuery, readLedgerRange, seqOf } from '../frame/ledger-range.ts'
import { allPages, type Place, pageOf, readCursor } from '../frame/page.ts'
import { balanceView, ledgerEntryView, usageView } from '../views/money.ts'
import { report } from './report.ts'

const query = { ...ledgerQuery, limit: limitOf(1_000, 10_000) } as const
const columns = [
  'entry_id',
  'private_job_id',
  'receipt_hash',
  'kind',
  'amount_wei',
  'balance_after_wei',
  'reserved_after_wei',
  'created_at',
] as const

/** Throws where there is no such customer: also before the first line of a table. */
async function customerOf({ gateway }: HttpContext, customerId: string) {
  const row = await gateway.ledger.account(customerId)
  if (row === null) throw new Problem('customer_not_found')
  return row
}

/** Endpoint 13. The CSV has the entries alone: all of the range, unless `limit` is given. */
export const usageExport = report({
  action: 'customer.usage.export',
  tag: 'Billing',
  summary: "Export a customer's ledger",
  query,
  response: UsageExport,
  read: async (context, { params, query, nowMs }) => {
    const { db } = context.gateway
    const row = await customerOf(context, params.customer_id ?? '')
    const range = readLedgerRange(query, row.customerId, nowMs)
    const totals = await ledgerTotals(db, range)
    const found = await ledgerPage(db, range, seqOf(readCursor(query.cursor)), query.limit + 1)
    const { shown, page } = pageOf(found, query.limit, ledgerPlace)
    return {
      object: `${brand}.admin.customer_usage_export` as const,
      generated_at: isoTime(nowMs),
      export_policy: 'customer_usage_export_v1' as const,
      contains_request_content: false,
      customer: {
        customer_id: row.customerId,
        display_name: row.displayName,
        account_status: row.accountStatus,
        ...balanceView(row),
        created_at: isoTime(row.createdAt),
      },
      ...page,
      usage: usageView({ totals, entries: shown }),
    }
  },
  deed: ({ params, query, format }) => ({
    targetId: params.customer_id ?? null,
    metadata: { format, window_days: query.window_days },
  }),
  csv: {
    name: 'customer-usage',
    columns,
    pages: async function* (context, { params, query, nowMs }, most) {
      const { customerId } = await customerOf(context, params.customer_id ?? '')
      const range = readLedgerRange(query, customerId, nowMs)
      const read = (after: Place | null, limit: number) => ledgerPage(context.gateway.db, range, seqOf(after), limit)
      for await (const rows of allPages(readCursor(query.cursor), most, read, ledgerPlace)) {
        yield rows.map((row) => cellsOf(ledgerEntryView(row), columns))
      }
    },
  },
})
