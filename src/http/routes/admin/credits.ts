import { Elysia } from 'elysia'
import { readBody } from '../../../protocol/json-body.ts'
import { Credit, CreditRequest } from '../../../protocol/wire/money.ts'
import { isoTime } from '../../../time.ts'
import { checkReasonHeader, customerParams, parseWei } from '../../admin-input.ts'
import type { HttpContext } from '../../exchange.ts'
import { admin } from '../../plugins/admin.ts'
import { describe } from '../../route-table.ts'

const replayedHeader = 'idempotent-replayed'

/** Endpoint 14. */
export const creditRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).post(
    '/v1/admin/customers/:customer_id/credits',
    async ({ params, request, set, status }) => {
      checkReasonHeader(request)
      const body = await readBody(request, CreditRequest)
      const { entry, replayed } = await context.gateway.billing.credit(params.customer_id, {
        ...(body.credit_id === undefined ? {} : { creditId: body.credit_id }),
        amountWei: parseWei(body.amount_wei, 'amount_wei') ?? 0n,
        reason: body.reason ?? null,
      })
      if (replayed) set.headers[replayedHeader] = 'true'
      return status(201, {
        status: 'credited' as const,
        customer_id: entry.customerId,
        credit_id: entry.entryId,
        amount_wei: entry.amountWei.toString(),
        balance_after_wei: entry.balanceAfterWei.toString(),
        reserved_after_wei: entry.reservedAfterWei.toString(),
        reason: entry.reason,
        created_at: isoTime(entry.createdAt),
      })
    },
    {
      role: 'admin',
      params: customerParams,
      response: { 201: Credit },
      detail: describe({
        summary: 'Credit a customer',
        description: 'The same `credit_id` credits once: again it answers the same with `Idempotent-Replayed: true`.',
        tags: ['Billing'],
        body: CreditRequest,
      }),
    },
  )
