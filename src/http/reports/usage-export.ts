import { brand } from '../../brand.ts'
import { getCustomer } from '../../db/queries/accounts/accounts.ts'
import { ledgerUsage } from '../../db/queries/money/ledger.ts'
import { Problem } from '../../errors.ts'
import { UsageExport } from '../../protocol/wire/money/billing.ts'
import { isoTime } from '../../time.ts'
import { customerParams } from '../frame/admin-input.ts'
import { limitOf, windowDays } from '../frame/query.ts'
import { usageView, windowStart } from '../views/money.ts'
import { report } from './report.ts'

/** Endpoint 13. The CSV has the entries alone. */
export const usageExport = report({
  action: 'customer.usage.export',
  tag: 'Billing',
  summary: "Export a customer's ledger",
  params: customerParams,
  query: { window_days: windowDays, limit: limitOf(1_000, 10_000) },
  response: UsageExport,
  read: async ({ gateway }, { params, query, nowMs }) => {
    const customerId = params.customer_id ?? ''
    const row = await getCustomer(gateway.db, customerId)
    if (row === null) throw new Problem('customer_not_found')
    const usage = await ledgerUsage(gateway.db, customerId, windowStart(nowMs, query.window_days), query.limit)
    return {
      object: `${brand}.admin.customer_usage_export` as const,
      generated_at: isoTime(nowMs),
      export_policy: 'customer_usage_export_v1' as const,
      contains_request_content: false,
      customer: {
        customer_id: row.customerId,
        display_name: row.displayName,
        account_status: row.accountStatus,
        balance_wei: row.balanceWei.toString(),
        reserved_wei: row.reservedWei.toString(),
        available_wei: (row.balanceWei - row.reservedWei).toString(),
        created_at: isoTime(row.createdAt),
      },
      usage: usageView(usage),
    }
  },
  deed: ({ params, query, format }) => ({
    targetId: params.customer_id ?? null,
    metadata: { format, window_days: query.window_days },
  }),
  csv: {
    name: 'customer-usage',
    columns: [
      'entry_id',
      'private_job_id',
      'receipt_hash',
      'kind',
      'amount_wei',
      'balance_after_wei',
      'reserved_after_wei',
      'created_at',
    ],
    rows: ({ usage }) =>
      usage.entries.map((entry) => [
        entry.entry_id,
        entry.private_job_id,
        entry.receipt_hash,
        entry.kind,
        entry.amount_wei,
        entry.balance_after_wei,
        entry.reserved_after_wei,
        entry.created_at,
      ]),
  },
})
