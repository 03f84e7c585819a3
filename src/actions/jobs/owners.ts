import { Problem } from '../../errors.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'

/** Viewers do not see whose a row is, so they cannot ask for it either. */
export function refuseOwners(role: AdminRole, customerId: string | null): void {
  if (customerId === null || role !== 'viewer') return
  throw new Problem('insufficient_role', { detail: 'This needs the role operator' })
}
