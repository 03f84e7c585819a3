import { CustomerList } from '../../protocol/wire/admin/accounts.ts'
import { idFilter, limitOf } from '../../protocol/wire/query.ts'
import { defineList } from '../frame/define-list.ts'

export const customerList = defineList({
  name: 'customer.list',
  at: 'GET /v1/admin/customers',
  role: 'operator',
  category: 'observability',
  summary: 'List customers, newest first',
  tag: 'Customers (extension)',
  query: { limit: limitOf(100, 1_000), before: idFilter('The id of the last customer of the page before') },
  result: CustomerList,
  rows: 'customers',
  read: async ({ gateway, views, query: { limit, before } }) =>
    (await gateway.accounts.customers(limit, before)).map(views.customerView),
  command: {
    words: 'customers list',
    options: {
      limit: { kind: 'number', value: 'N', min: 1, max: 1_000, about: 'How many to show at most (default 100)' },
      before: { kind: 'text', value: 'CUSTOMER_ID', about: 'The last customer of the page before' },
    },
    after: 'create',
    columns: [
      ['CUSTOMER', (customer) => customer.customer_id],
      ['NAME', (customer) => customer.display_name],
      ['STATUS', (customer) => customer.account_status],
      ['POLICY', (customer) => (customer.gateway_policy === null ? 'default' : 'own')],
      ['CREATED', (customer, print) => print.time(customer.created_at)],
    ],
    empty: 'No customers.',
  },
})
