import type { Static } from '@sinclair/typebox'
import type { Customer, CustomerCreated } from '../../../protocol/wire/admin/accounts.ts'
import { action, type Verb } from '../../frame/action.ts'
import { reasonBody, reasonOption, shownOnce } from '../../frame/admin-options.ts'
import { UsageFault } from '../../frame/failure.ts'
import { segment } from '../../frame/gateway-client.ts'
import type { Session } from '../../frame/session.ts'
import { fields, shortTime } from '../../frame/table.ts'
import { accountPolicy, accountPolicyChange, gatewayPolicyOptions } from './policy-options.ts'

const path = '/v1/admin/customers'
const idOperand = { name: 'CUSTOMER_ID', about: 'The customer’s id, as `customers list` shows it' } as const

function described(session: Session, customer: Customer): string {
  return fields(session.terminal, [
    ['Customer', customer.customer_id],
    ['Name', customer.display_name],
    ['Status', customer.account_status],
    ['Policy', customer.gateway_policy === null ? 'default' : JSON.stringify(customer.gateway_policy)],
    ['Created', shortTime(customer.created_at)],
  ])
}

const create = action({
  about: 'Create a customer and print its token and webhook secret, once',
  operands: [{ name: 'NAME', about: 'The name that lists show' }],
  options: { ...gatewayPolicyOptions, ...reasonOption },
  run: async ({ operands, options, json }, session) => {
    const policy = await accountPolicy(session, options)
    const made = await session.gateway().admin<Static<typeof CustomerCreated>>({
      method: 'POST',
      path,
      body: {
        display_name: operands[0],
        ...(policy === undefined ? {} : { gateway_policy: policy }),
        ...reasonBody(options.reason),
      },
    })
    session.show(
      json,
      made,
      (body) =>
        described(session, body) +
        shownOnce(session.terminal, 'Customer token', body.customer_token) +
        shownOnce(session.terminal, 'Webhook secret', body.webhook_secret),
    )
    return undefined
  },
})

const show = action({
  about: 'Show a customer and its policy',
  operands: [idOperand],
  options: {},
  run: async ({ operands, json }, session) => {
    const customer = await session.gateway().admin<Customer>({ path: `${path}/${segment(operands[0] ?? '')}` })
    session.show(json, customer, (body) => described(session, body))
    return undefined
  },
})

const update = action({
  about: 'Change the name, status or policy. An option for one policy field changes only that field',
  operands: [idOperand],
  options: {
    name: { kind: 'text', value: 'NAME', about: 'The new name' },
    status: { kind: 'choice', of: ['active', 'suspended', 'closed'], about: 'The new status' },
    ...gatewayPolicyOptions,
    ...reasonOption,
  },
  run: async ({ operands, options, json }, session) => {
    const gateway = session.gateway()
    const one = `${path}/${segment(operands[0] ?? '')}`
    const policy = await accountPolicyChange(session, options)
    const changes = {
      ...(options.name === undefined ? {} : { display_name: options.name }),
      ...(options.status === undefined ? {} : { account_status: options.status }),
      ...policy,
    }
    if (Object.keys(changes).length === 0) throw new UsageFault('There is nothing to change. Give at least one option.')
    const body = { ...changes, ...reasonBody(options.reason) }
    const { etag: seen } = await gateway.admin<Customer>({ path: one })
    const customer = await gateway.admin<Customer>({ method: 'PATCH', path: one, body, seen })
    session.show(json, customer, (changed) => described(session, changed))
    return undefined
  },
})

export const customers: Verb = {
  name: 'customers',
  about: 'Manage accounts, which own nodes and keys',
  actions: { create, show, update },
}
