import { Debit, DebitRequest } from '../../protocol/wire/money/billing.ts'
import { defineAction } from '../frame/define-action.ts'
import { amountOperand, balanceChange, changedBalance, changedLines, replays } from './balance.ts'
import { customerOperand, customerPolicy } from './customer.ts'

export const debitCustomer = defineAction({
  name: 'customer.debit.create',
  at: 'POST /v1/admin/customers/:customer_id/debits',
  policy: { ...customerPolicy, requirement: 'reason_and_second_approver' },
  summary: 'Take credit back from a customer',
  description: `At most what is available: what is reserved stays. The same \`debit_id\` debits once. ${replays}`,
  tag: 'Money (extension)',
  body: DebitRequest,
  result: Debit,
  statuses: [201],
  run: async ({ gateway, audit, params, body, head }) => {
    const made = await gateway.billing.debit(params.customer_id, balanceChange(body.debit_id, body.amount_wei), audit)
    const { customerId: customer_id, entryId: debit_id } = made.entry
    return { status: 'debited' as const, customer_id, debit_id, ...changedBalance(made, head) }
  },
  command: {
    words: 'credits deduct',
    about: 'Take credit back from a customer, at most what is available',
    operands: [customerOperand, amountOperand],
    options: {
      id: {
        kind: 'text',
        value: 'DEBIT_ID',
        about: 'Your own id for this debit. Using the same id again does not debit twice.',
        is: 'debit_id',
      },
    },
    prints: (debit, print) => print.fields(changedLines(['Debit', debit.debit_id], debit, print.time)),
  },
})
