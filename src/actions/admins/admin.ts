import type { Admin } from '../../protocol/wire/admin/operators.ts'
import type { Printer } from '../frame/command.ts'
import type { Policy } from '../frame/policy.ts'

export const tag = 'Administrators (extension)'

/** A new token asks for two admins. To take one away must be quick: one admin can. */
export const newAdminPolicy: Policy = {
  role: 'admin',
  category: 'key_management',
  target: 'admin',
  requirement: 'reason_and_second_approver',
}
export const endPolicy: Policy = { role: 'admin', category: 'key_management', target: 'admin' }

export function printedAdmin(admin: Admin, { fields, time }: Pick<Printer, 'fields' | 'time'>): string {
  return fields([
    ['Admin', admin.admin_id],
    ['Name', admin.name],
    ['Role', admin.role],
    ['Begins with', admin.display_prefix],
    ['Last used', time(admin.last_used_at)],
    ['Revoked', time(admin.revoked_at)],
  ])
}
