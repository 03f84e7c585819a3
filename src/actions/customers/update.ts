import { Problem } from '../../errors.ts'
import { Customer, CustomerUpdate } from '../../protocol/wire/admin/accounts.ts'
import { defineAction } from '../frame/define-action.ts'
import { camelMembers } from '../frame/members.ts'
import { customerPolicy, tag } from './customer.ts'

export const updateCustomer = defineAction({
  name: 'customer.update',
  at: 'PATCH /v1/admin/customers/:customer_id',
  policy: customerPolicy,
  summary: 'Change a customer',
  description:
    'An omitted field stays as it is. `gateway_policy` is the whole policy, `gateway_policy_changes` some fields of it, where null takes one away.',
  tag,
  body: CustomerUpdate,
  result: Customer,
  etag: 'row',
  run: async ({ gateway, views, audit, params, body, precondition }) => {
    const { reason: _, gateway_policy_changes: some, ...rest } = body
    if (rest.gateway_policy !== undefined && some !== undefined) {
      throw new Problem('invalid_request', {
        param: 'gateway_policy_changes',
        detail: 'Send gateway_policy, which replaces the whole policy, or gateway_policy_changes, not both',
      })
    }
    const changes = { ...camelMembers(rest), ...(some === undefined ? {} : { policyChanges: some }) }
    const accounts = gateway.accounts.by(audit)
    return views.customerView(await accounts.updateCustomer(params.customer_id, changes, precondition()))
  },
})
