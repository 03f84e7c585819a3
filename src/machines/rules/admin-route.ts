export const approvalPolicyVersion = 'admin_approval_policy_v1' as const

/** The roles of an admin token; a higher one includes the lower ones (§4). */
export type AdminRole = 'viewer' | 'operator' | 'admin'

export type TargetType =
  | 'customer'
  | 'audit_events'
  | 'node'
  | 'enrollment_token'
  | 'join'
  | 'gateway_key'
  | 'model'
  | 'payout_batch'
  | 'receipt'
  | 'job'
  | 'command'
  | 'webhook'
  | 'log'
  | 'admin'
  | 'session'

/** The actions of command events (§16). */
export type CommandAction =
  | 'job.create'
  | 'job.cancel'
  | 'node.drain'
  | 'node.resume'
  | 'node.revoke'
  | 'node.sleep'
  | 'node.wake'
  | 'model.load'
  | 'model.unload'
  | 'model.pull'
  | 'model.pull.cancel'
  | 'model.copy'

export type Category =
  | 'audit'
  | 'billing'
  | 'catalogue'
  | 'data_export'
  | 'key_management'
  | 'node_control'
  | 'observability'
  | 'private_jobs'
  | 'retention'
  | 'settlement'

/** One admin route: who may call it, and what its approval requires (§16, `actions`; §23). */
export interface AdminRoute {
  /** Its name, by which events and the approval policy know it. */
  readonly action: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** The template; always under `/v1/admin/`. */
  readonly path: string
  readonly role: AdminRole
  readonly category: Category
  /** The target of its approval events. null if it writes none. */
  readonly targetType: TargetType | null
  /** The action of its command event, if it sends a command to a node. */
  readonly command: CommandAction | null
  readonly reasonRequired: boolean
  readonly typedConfirmation: string | null
  readonly dryRun: boolean
  readonly productionRequirement: 'role_token' | 'reason' | 'second_approver' | 'reason_and_second_approver'
}

/** Actions that need a second admin once `SVC_REQUIRE_SECOND_APPROVER` is set. */
export const needsSecondApprover = ({ productionRequirement }: AdminRoute): boolean =>
  productionRequirement === 'second_approver' || productionRequirement === 'reason_and_second_approver'

/** The settings that decide whether an action needs a reason or a second admin. */
export interface Enforcement {
  readonly reasonEnforced: boolean
  readonly secondApproverRequired: boolean
}

/** What a call must bring now, as the approval policy tells it; a reason that may be left out is `reason_advisory`. */
export function currentEnforcement(row: AdminRoute, { reasonEnforced, secondApproverRequired }: Enforcement): string {
  const asked = [
    ...(row.typedConfirmation === null ? [] : ['typed_confirmation']),
    ...(row.reasonRequired ? [reasonEnforced ? 'reason' : 'reason_advisory'] : []),
    ...(secondApproverRequired && needsSecondApprover(row) ? ['second_approver'] : []),
  ]
  return asked.length === 0 ? 'role_token' : `role_token_${asked.join('_and_')}`
}

/** What is wrong with the admin routes that are mounted; empty when each has its own row of the table. */
export function adminRouteFaults(
  mounted: readonly { readonly method: string; readonly path: string; readonly action: string | null }[],
  table: Readonly<Record<string, AdminRoute>>,
): readonly string[] {
  const seen = new Set<string>()
  return mounted.flatMap(({ method, path, action }) => {
    const place = `${method} ${path}`
    if (action === null) return [`${place} names no action`]
    const row = table[action]
    if (row === undefined) return [`${place}: no row ${action}`]
    if (row.method !== method || row.path !== path) return [`${place}: ${action} is ${row.method} ${row.path}`]
    if (seen.has(action)) return [`${place}: ${action} is mounted twice`]
    seen.add(action)
    return []
  })
}
