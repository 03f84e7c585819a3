import { Customer } from '../../../protocol/wire/admin/accounts.ts'
import { report } from '../../reports/report.ts'
import { customerView } from '../../views/admin.ts'

export const customerRead = report({
  action: 'customer.read',
  tag: 'Customers (extension)',
  summary: 'Read a customer',
  query: {},
  response: Customer,
  etag: 'row',
  read: async ({ gateway }, { params }) => customerView(await gateway.accounts.customer(params.customer_id ?? '')),
})
