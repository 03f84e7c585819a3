import { recentFees, settlementGroups, treasuryTotals } from '../../db/queries/money/payouts.ts'
import { TreasuryReport } from '../../protocol/wire/money/money.ts'
import { limitOf, windowDays } from '../../protocol/wire/query.ts'
import { isoTime } from '../../time.ts'
import { groupView, windowStart } from '../views/money.ts'
import { report } from './report.ts'

/** Endpoint 15. */
export const treasury = report({
  action: 'billing.treasury.read',
  tag: 'Billing',
  summary: 'Treasury report',
  description: 'What customers paid, how much of it nodes and the operator got, and what was given back.',
  query: { window_days: windowDays, limit: limitOf(100, 1_000) },
  response: TreasuryReport,
  read: async ({ gateway }, { query, nowMs }) => {
    const since = windowStart(nowMs, query.window_days)
    const totals = await treasuryTotals(gateway.db, since)
    const groups = await settlementGroups(gateway.db, since)
    const fees = await recentFees(gateway.db, since, query.limit)
    return {
      status: 'ok' as const,
      generated_at: isoTime(nowMs),
      window_days: query.window_days,
      totals: {
        customer_debits_wei: totals.debitsWei.toString(),
        customer_refunds_wei: totals.refundsWei.toString(),
        node_payouts_wei: totals.payoutsWei.toString(),
        protocol_fees_wei: totals.feesWei.toString(),
      },
      settlement_statuses: groups.map(groupView),
      recent_protocol_fees: fees.map((fee) => ({
        entry_id: fee.entryId,
        private_job_id: fee.privateJobId,
        receipt_hash: fee.receiptHash,
        amount_wei: fee.amountWei.toString(),
        settlement_status: fee.settlementStatus,
        created_at: isoTime(fee.createdAt),
      })),
    }
  },
})
