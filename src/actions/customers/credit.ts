import { parseWei } from '../../protocol/validation/parse-text.ts'
import { Credit, CreditRequest } from '../../protocol/wire/money/billing.ts'
import { isoTime } from '../../time.ts'
import { defineAction } from '../frame/define-action.ts'
import { customerOperand, customerPolicy } from './customer.ts'

const replayedHeader = 'idempotent-replayed'

/** Endpoint 14. */
export const creditCustomer = defineAction({
  name: 'customer.credit.create',
  at: 'POST /v1/admin/customers/:customer_id/credits',
  policy: { ...customerPolicy, requirement: 'reason_and_second_approver' },
  summary: 'Credit a customer',
  description:
    'The same `credit_id` credits once. A repeated request gets the same answer with `Idempotent-Replayed: true`.',
  tag: 'Billing',
  body: CreditRequest,
  result: Credit,
  statuses: [201],
  run: async ({ gateway, audit, params, body: { credit_id: creditId, amount_wei }, head }) => {
    const amountWei = parseWei(amount_wei, 'amount_wei') ?? 0n
    const input = { ...(creditId === undefined ? {} : { creditId }), amountWei }
    const { entry, replayed } = await gateway.billing.credit(params.customer_id, input, audit)
    if (replayed) head.headers[replayedHeader] = 'true'
    return {
      status: 'credited' as const,
      customer_id: entry.customerId,
      credit_id: entry.entryId,
      amount_wei: entry.amountWei.toString(),
      balance_after_wei: entry.balanceAfterWei.toString(),
      reserved_after_wei: entry.reservedAfterWei.toString(),
      reason: entry.reason,
      created_at: isoTime(entry.createdAt),
    }
  },
  command: {
    words: 'credits add',
    about: 'Credit a customer’s account',
    operands: [
      customerOperand,
      {
        name: 'AMOUNT_WEI',
        is: 'amount_wei',
        about: 'The amount in whole wei',
        form: ['^[0-9]+$', 'whole wei, without exponent, sign or point, like 1000000000000000000'],
      },
    ],
    options: {
      id: {
        kind: 'text',
        value: 'CREDIT_ID',
        about: 'Your own id for this credit. Using the same id again does not credit twice.',
        is: 'credit_id',
      },
    },
    prints: (credit, print) =>
      print.fields([
        ['Credit', credit.credit_id],
        ['Customer', credit.customer_id],
        ['Amount', `${credit.amount_wei} wei`],
        ['Balance', `${credit.balance_after_wei} wei`],
        ['Reserved', `${credit.reserved_after_wei} wei`],
        ['Made', print.time(credit.created_at)],
      ]),
  },
})
