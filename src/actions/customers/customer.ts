import type { Policy } from '../frame/policy.ts'

export const tag = 'Customers (extension)'
export const customerPolicy: Policy = { role: 'admin', category: 'billing', target: 'customer' }
export const customerOperand = {
  name: 'CUSTOMER_ID',
  is: 'customer_id',
  about: 'The customer’s id, as `customers list` shows it',
} as const
