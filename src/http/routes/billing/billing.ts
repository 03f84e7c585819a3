import { Elysia } from 'elysia'
import { ledgerPage, ledgerTotals } from '../../../db/queries/money/ledger-pages.ts'
import { Problem } from '../../../errors.ts'
import { wholePolicy } from '../../../machines/rules/model-policy.ts'
import { CustomerAccount, CustomerUsage } from '../../../protocol/wire/money/billing.ts'
import { limitOf } from '../../../protocol/wire/query.ts'
import { isoTime } from '../../../time.ts'
import type { HttpContext } from '../../frame/context.ts'
import { ledgerPlace, ledgerQuery, readLedgerRange, seqOf } from '../../frame/ledger-range.ts'
import { nextLink, pageOf, readCursor } from '../../frame/page.ts'
import { asks } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { customer } from '../../plugins/customer.ts'
import { balanceView, usageView } from '../../views/money.ts'

const tags = ['Billing']
const security = [{ CustomerId: [], CustomerToken: [] }]
const usageQuery = { ...ledgerQuery, limit: limitOf(100, 500) } as const

/** Endpoints 11 and 12; a suspended account may still read them (§3). */
export const billingRoutes = (context: HttpContext) => {
  const { gateway } = context
  const expertsMax = gateway.config.SVC_MIXTURE_EXPERTS_MAX
  return new Elysia()
    .use(customer(context))
    .get(
      '/v1/billing/account',
      async ({ access }) => {
        const row = await gateway.ledger.account(access.customerId)
        if (row === null) throw new Problem('invalid_credentials')
        return {
          status: 'ok' as const,
          customer_id: row.customerId,
          display_name: row.displayName,
          account_status: row.accountStatus,
          ...balanceView(row),
          gateway_policy: row.gatewayPolicy && wholePolicy(row.gatewayPolicy, expertsMax),
        }
      },
      {
        response: { 200: CustomerAccount },
        detail: { ...describe({ summary: 'Your account', tags }), security },
      },
    )
    .get(
      '/v1/billing/usage',
      async ({ access, query, request, set }) => {
        const nowMs = Date.now()
        const range = readLedgerRange(query, access.customerId, nowMs)
        const totals = await ledgerTotals(gateway.db, range)
        const found = await ledgerPage(gateway.db, range, seqOf(readCursor(query.cursor)), query.limit + 1)
        const { shown, page } = pageOf(found, query.limit, ledgerPlace)
        if (page.next_cursor !== null) {
          set.headers.link = nextLink(gateway.baseUrl(), request.url, page.next_cursor)
        }
        return {
          status: 'ok' as const,
          customer_id: access.customerId,
          generated_at: isoTime(nowMs),
          ...page,
          ...usageView({ totals, entries: shown }),
        }
      },
      {
        response: { 200: CustomerUsage },
        ...asks(usageQuery),
        detail: {
          ...describe({
            summary: 'Your ledger',
            description: 'The totals cover the whole window. The newest entries come first.',
            tags,
          }),
          security,
        },
      },
    )
}
