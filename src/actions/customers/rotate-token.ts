import { CustomerToken } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { customerOperand, customerPolicy, tag } from './customer.ts'

export const rotateCustomerToken = defineAction({
  name: 'customer.token.rotate',
  at: 'POST /v1/admin/customers/:customer_id/token',
  policy: customerPolicy,
  summary: 'Replace the customer token',
  tag,
  result: CustomerToken,
  statuses: [201],
  run: async ({ gateway, audit, params }) => {
    const { customer, customerToken } = await gateway.accounts.by(audit).rotateCustomerToken(params.customer_id)
    return { customer_id: customer.customerId, customer_token: customerToken }
  },
  command: {
    words: 'customers token',
    about: 'Replace the customer token. The old one stops working at once',
    operands: [customerOperand],
    prints: (made, print) => print.once('Customer token', made.customer_token),
  },
})
