import { Elysia } from 'elysia'
import { brand } from '../../../brand.ts'
import { Customer, CustomerList } from '../../../protocol/wire/admin/accounts.ts'
import { isoTime } from '../../../time.ts'
import { customerParams } from '../../frame/admin-input.ts'
import type { HttpContext } from '../../frame/context.ts'
import { tagged } from '../../frame/precondition.ts'
import { asks, idFilter, limitOf } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { customerView } from '../../views/admin.ts'

const tags = ['Customers (extension)']
const listQuery = {
  limit: limitOf(100, 1_000),
  before: idFilter('The id of the last customer of the page before'),
} as const

/** Customers (§23). */
export const customerRoutes = (context: HttpContext) => {
  const { accounts } = context.gateway
  return new Elysia()
    .use(admin(context))
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
}
