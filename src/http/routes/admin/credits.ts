import { Elysia } from 'elysia'
import type { BalanceChanged } from '../../../actors/money/billing.ts'
import { Credit, CreditRequest, Debit, DebitRequest } from '../../../protocol/wire/money/billing.ts'
import { isoTime } from '../../../time.ts'
import { customerParams, parseWei } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'

const replayedHeader = 'idempotent-replayed'
const replays = 'A repeated request gets the same answer with `Idempotent-Replayed: true`.'

const changeOf = (id: string | undefined, amountWei: string) => ({
  ...(id === undefined ? {} : { id }),
  amountWei: parseWei(amountWei, 'amount_wei') ?? 0n,
})

const shown = ({ entry }: BalanceChanged) => ({
  amount_wei: entry.amountWei.toString(),
  balance_after_wei: entry.balanceAfterWei.toString(),
  reserved_after_wei: entry.reservedAfterWei.toString(),
  reason: entry.reason,
  created_at: isoTime(entry.createdAt),
})

/** Endpoint 14, and its way back (§23). */
export const creditRoutes = (context: HttpContext) =>
  new Elysia()
    .use(admin(context))
    .post(
      '/v1/admin/customers/:customer_id/credits',
      async ({ body: { body, audit }, params, set, status }) => {
        const change = changeOf(body.credit_id, body.amount_wei)
        const made = await context.gateway.billing.credit(params.customer_id, change, audit)
        if (made.replayed) set.headers[replayedHeader] = 'true'
        const { customerId: customer_id, entryId: credit_id } = made.entry
        return status(201, { status: 'credited' as const, customer_id, credit_id, ...shown(made) })
      },
      {
        action: 'customer.credit.create',
        params: customerParams,
        response: { 201: Credit },
        ...reads(CreditRequest),
        detail: describe({
          summary: 'Credit a customer',
          description: `The same \`credit_id\` credits once. ${replays}`,
          tags: ['Billing'],
        }),
      },
    )
    .post(
      '/v1/admin/customers/:customer_id/debits',
      async ({ body: { body, audit }, params, set, status }) => {
        const change = changeOf(body.debit_id, body.amount_wei)
        const made = await context.gateway.billing.debit(params.customer_id, change, audit)
        if (made.replayed) set.headers[replayedHeader] = 'true'
        const { customerId: customer_id, entryId: debit_id } = made.entry
        return status(201, { status: 'debited' as const, customer_id, debit_id, ...shown(made) })
      },
      {
        action: 'customer.debit.create',
        params: customerParams,
        response: { 201: Debit },
        ...reads(DebitRequest),
        detail: describe({
          summary: 'Take credit back from a customer',
          description: `At most what is available: what is reserved stays. The same \`debit_id\` debits once. ${replays}`,
          tags: ['Money (extension)'],
        }),
      },
    )
