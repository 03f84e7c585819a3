import { Credit, CreditRequest } from '../../protocol/wire/money/billing.ts'
import { defineAction } from '../frame/define-action.ts'
import { amountOperand, balanceChange, changedBalance, changedLines, replays } from './balance.ts'
import { customerOperand, customerPolicy } from './customer.ts'

/** Endpoint 14. */
export const creditCustomer = defineAction({
  name: 'customer.credit.create',
  at: 'POST /v1/admin/customers/:customer_id/credits',
  policy: { ...customerPolicy, requirement: 'reason_and_second_approver' },
  summary: 'Credit a customer',
  description: `The same \`credit_id\` credits once. ${replays}`,
  tag: 'Billing',
  body: CreditRequest,
  result: Credit,
  statuses: [201],
  run: async ({ gateway, audit, params, body, head }) => {
    const made = await gateway.billing.credit(params.customer_id, balanceChange(body.credit_id, body.amount_wei), audit)
    const { customerId: customer_id, entryId: credit_id } = made.entry
    return { status: 'credited' as const, customer_id, credit_id, ...changedBalance(made, head) }
  },
  command: {
    words: 'credits add',
    about: 'Credit a customer’s account',
    operands: [customerOperand, amountOperand],
    options: {
      id: {
        kind: 'text',
        value: 'CREDIT_ID',
        about: 'Your own id for this credit. Using the same id again does not credit twice.',
        is: 'credit_id',
      },
    },
    prints: (credit, print) => print.fields(changedLines(['Credit', credit.credit_id], credit, print.time)),
  },
})
