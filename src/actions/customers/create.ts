import { CustomerCreate, CustomerCreated } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { customerPolicy, tag } from './customer.ts'

/** Token and secret stand in this answer and nowhere else (§23). */
export const createCustomer = defineAction({
  name: 'customer.create',
  at: 'POST /v1/admin/customers',
  policy: customerPolicy,
  summary: 'Create a customer',
  tag,
  body: CustomerCreate,
  result: CustomerCreated,
  statuses: [201],
  run: async ({ gateway, views, audit, body }) => {
    const { customer, customerToken, webhookSecret } = await gateway.accounts
      .by(audit)
      .createCustomer({ displayName: body.display_name, gatewayPolicy: body.gateway_policy ?? null })
    return { ...views.customerView(customer), customer_token: customerToken, webhook_secret: webhookSecret }
  },
})
