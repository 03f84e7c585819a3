import { Elysia } from 'elysia'
import { Credit, CreditRequest } from '../../../protocol/wire/money/billing.ts'
import { isoTime } from '../../../time.ts'
import { customerParams, parseWei } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

const replayedHeader = 'idempotent-replayed'

/** Endpoint 14. */
export const creditRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).post(
    '/v1/admin/customers/:customer_id/credits',
    async ({ body: { body, audit }, params, set, status }) => {
      const input = {
        ...(body.credit_id === undefined ? {} : { creditId: body.credit_id }),
        amountWei: parseWei(body.amount_wei, 'amount_wei') ?? 0n,
      }
      const { entry, replayed } = await context.gateway.billing.credit(params.customer_id, input, audit)
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
      action: 'customer.credit.create',
      params: customerParams,
      response: { 201: Credit },
      ...reads(CreditRequest),
      detail: describe({
        summary: 'Credit a customer',
        description:
          'The same `credit_id` credits once. A repeated request gets the same answer with `Idempotent-Replayed: true`.',
        tags: ['Billing'],
      }),
    },
  )
