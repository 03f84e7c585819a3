import { Elysia } from 'elysia'
import type { CustomerChanges } from '../../../actors/accounts/accounts.ts'
import { brand } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import {
  Customer,
  CustomerCreate,
  CustomerCreated,
  CustomerList,
  CustomerToken,
  CustomerUpdate,
  WebhookSecret,
} from '../../../protocol/wire/admin/accounts.ts'
import { ReasonBody } from '../../../protocol/wire/admin/admin.ts'
import { isoTime } from '../../../time.ts'
import { customerParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, idFilter, limitOf } from '../../frame/query.ts'
import { mayRead, reads } from '../../frame/reads.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { customerView } from '../../views/admin.ts'

const tags = ['Customers (extension)']
const listQuery = {
  limit: limitOf(100, 1_000),
  before: idFilter('The id of the last customer of the page before'),
} as const

const collectionRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .post(
      '/v1/admin/customers',
      async ({ body: { body, audit }, status }) => {
        const made = await accounts.by(audit).createCustomer({
          displayName: body.display_name,
          gatewayPolicy: body.gateway_policy ?? null,
        })
        return status(201, {
          ...customerView(made.customer),
          customer_token: made.customerToken,
          webhook_secret: made.webhookSecret,
        })
      },
      {
        action: 'customer.create',
        response: { 201: CustomerCreated },
        ...reads(CustomerCreate),
        detail: describe({ summary: 'Create a customer', tags }),
      },
    )
    .get(
      '/v1/admin/customers',
      async ({ query: { limit, before } }) => {
        const customers = (await accounts.customers(limit, before)).map(customerView)
        return {
          object: `${brand}.admin.customer_list` as const,
          generated_at: isoTime(Date.now()),
          count: customers.length,
          customers,
        }
      },
      {
        action: 'customer.list',
        response: { 200: CustomerList },
        ...asks(listQuery),
        detail: describe({ summary: 'List customers, newest first', tags }),
      },
    )
}

/** The whole policy, or some fields of it. */
function policyOf({
  gateway_policy: whole,
  gateway_policy_changes: some,
}: typeof CustomerUpdate.static): Pick<CustomerChanges, 'gatewayPolicy' | 'policyChanges'> {
  if (whole !== undefined && some !== undefined) {
    throw new Problem('invalid_request', {
      param: 'gateway_policy_changes',
      detail: 'Send gateway_policy, which replaces the whole policy, or gateway_policy_changes, not both',
    })
  }
  return {
    ...(whole === undefined ? {} : { gatewayPolicy: whole }),
    ...(some === undefined ? {} : { policyChanges: some }),
  }
}

const itemRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .get(
      '/v1/admin/customers/:customer_id',
      async ({ params, set }) => tagged(set, customerView(await accounts.customer(params.customer_id))),
      {
        action: 'customer.read',
        params: customerParams,
        response: { 200: Customer },
        detail: describe({ summary: 'Read a customer', tags, etag: 'row' }),
      },
    )
    .patch(
      '/v1/admin/customers/:customer_id',
      async ({ body: { body, audit }, call, params, set }) => {
        const changes: CustomerChanges = {
          ...(body.display_name === undefined ? {} : { displayName: body.display_name }),
          ...(body.account_status === undefined ? {} : { accountStatus: body.account_status }),
          ...policyOf(body),
        }
        const customer = await accounts.by(audit).updateCustomer(params.customer_id, changes, call.precondition())
        return tagged(set, customerView(customer))
      },
      {
        action: 'customer.update',
        params: customerParams,
        response: { 200: Customer },
        ...reads(CustomerUpdate),
        detail: describe({
          summary: 'Change a customer',
          description:
            'An omitted field stays as it is. `gateway_policy` is the whole policy, `gateway_policy_changes` some fields of it, where null takes one away.',
          tags,
          etag: 'row',
        }),
      },
    )
}

const credentialRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
    .post(
      '/v1/admin/customers/:customer_id/token',
      async ({ body: { audit }, params, status }) => {
        const { customer, customerToken } = await accounts.by(audit).rotateCustomerToken(params.customer_id)
        return status(201, { customer_id: customer.customerId, customer_token: customerToken })
      },
      {
        action: 'customer.token.rotate',
        params: customerParams,
        response: { 201: CustomerToken },
        ...mayRead(ReasonBody),
        detail: describe({ summary: 'Replace the customer token', tags }),
      },
    )
    .post(
      '/v1/admin/customers/:customer_id/webhook-secret',
      async ({ body: { audit }, params, status }) => {
        const { customer, webhookSecret } = await accounts.by(audit).rotateWebhookSecret(params.customer_id)
        return status(201, { customer_id: customer.customerId, webhook_secret: webhookSecret })
      },
      {
        action: 'customer.webhook_secret.rotate',
        params: customerParams,
        response: { 201: WebhookSecret },
        ...mayRead(ReasonBody),
        detail: describe({ summary: 'Replace the webhook secret', tags }),
      },
    )
}

/** Customers (§23). Tokens and secrets stand in the answer that made them and nowhere else. */
export const customerRoutes = (context: HttpContext) =>
  new Elysia().use(collectionRoutes(context)).use(itemRoutes(context)).use(credentialRoutes(context))
