import type { Key } from '../../protocol/wire/admin/accounts.ts'
import type { Printer } from '../frame/command.ts'
import type { Policy } from '../frame/policy.ts'

export const tag = 'Gateway keys (extension)'
export const keyPolicy: Policy = {
  role: 'admin',
  category: 'key_management',
  target: 'gateway_key',
  requirement: 'reason_and_second_approver',
}
export const keyOperand = { name: 'KEY_ID', is: 'key_id', about: 'The id (key_…), as `keys list` shows it' } as const

type Printed = Pick<Printer, 'fields' | 'time'>

export function printedKey(key: Key, { fields, time }: Printed, oldKeyUntil?: string): string {
  return fields([
    ['Key', key.key_id],
    ['Name', key.name],
    ['Customer', key.customer_id],
    ['Begins with', key.display_prefix],
    ['Policy', key.model_policy === null ? 'default' : JSON.stringify(key.model_policy)],
    ['Nodes', key.node_scope === null ? 'all' : key.node_scope.join(', ')],
    ['Expires', time(key.expires_at)],
    ['Revoked', time(key.revoked_at)],
    ...(oldKeyUntil === undefined ? [] : [['Old key works until', time(oldKeyUntil)] as const]),
  ])
}
