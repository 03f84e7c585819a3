import { Customer, CustomerList } from '../../../protocol/wire/admin/accounts.ts'
import { idFilter, limitOf } from '../../frame/query.ts'
import { listOf, report } from '../../reports/report.ts'
import { customerView } from '../../views/admin.ts'

const tag = 'Customers (extension)'

/** Customers (§23). */
export const customerList = report({
  action: 'customer.list',
  tag,
  summary: 'List customers, newest first',
  query: { limit: limitOf(100, 1_000), before: idFilter('The id of the last customer of the page before') },
  response: CustomerList,
  read: async ({ gateway }, { query: { limit, before }, nowMs }) =>
    listOf('customer_list', 'customers', (await gateway.accounts.customers(limit, before)).map(customerView), nowMs),
})

export const customerRead = report({
  action: 'customer.read',
  tag,
  summary: 'Read a customer',
  query: {},
  response: Customer,
  etag: 'row',
  read: async ({ gateway }, { params }) => customerView(await gateway.accounts.customer(params.customer_id ?? '')),
})
