import type { AdminRole, AdminRoute, Category, CommandAction, TargetType } from './admin-route.ts'

export const purgeConfirmation = 'PURGE AUDIT EVENTS'
export const forkConfirmation = 'NAME THE FORK'
export const approvalPolicyVersion = 'admin_approval_policy_v1' as const

type Place = readonly [method: AdminRoute['method'], path: string]

/** A read, which only needs its role. */
const read = (role: AdminRole, category: Category, path: string): AdminRoute => ({
  method: 'GET',
  path,
  role,
  category,
  targetType: null,
  command: null,
  reasonRequired: false,
  typedConfirmation: null,
  dryRun: false,
  productionRequirement: 'role_token',
})

/** A change, which should have a reason. */
const change = (
  role: AdminRole,
  category: Category,
  targetType: TargetType,
  [method, path]: Place,
  rest: Partial<AdminRoute> = {},
): AdminRoute => ({
  ...read(role, category, path),
  method,
  targetType,
  reasonRequired: true,
  productionRequirement: 'reason',
  ...rest,
})

const twoPeople = { productionRequirement: 'second_approver' } as const
const reasonAndTwoPeople = { productionRequirement: 'reason_and_second_approver' } as const
const noReasonYet = { reasonRequired: false } as const
const tellsMachine = (command: CommandAction) => ({ command }) as const

/**
 * Every admin route there is, by the name of its action. What is mounted names its row and takes its role from it; the
 * OpenAPI document, the approval policy and the templates of the audit read the same table, and the start refuses a
 * route that has no row (`checkAdminRoutes`).
 */
export const adminRoutes = {
  'customer.credit.create': change(
    'admin',
    'billing',
    'customer',
    ['POST', '/v1/admin/customers/:customer_id/credits'],
    reasonAndTwoPeople,
  ),
  'customer.debit.create': change(
    'admin',
    'billing',
    'customer',
    ['POST', '/v1/admin/customers/:customer_id/debits'],
    reasonAndTwoPeople,
  ),
  'audit.retention.purge': change(
    'admin',
    'retention',
    'audit_events',
    ['POST', '/v1/admin/retention/audit-events/purge'],
    {
      ...twoPeople,
      reasonRequired: false,
      typedConfirmation: purgeConfirmation,
      dryRun: true,
    },
  ),
  'customer.usage.export': change(
    'operator',
    'data_export',
    'customer',
    ['GET', '/v1/admin/customers/:customer_id/usage-export'],
    noReasonYet,
  ),
  'customer.invoice.export': change(
    'operator',
    'data_export',
    'customer',
    ['GET', '/v1/admin/customers/:customer_id/invoice'],
    noReasonYet,
  ),
  // What the console shows by itself is no sensitive call: else its own reads would hide those of a person.
  'billing.costs.read': read('operator', 'observability', '/v1/admin/billing/costs'),
  'billing.treasury.read': read('operator', 'billing', '/v1/admin/billing/treasury-report'),
  'audit.access.read': read('viewer', 'audit', '/v1/admin/access-events'),
  'audit.approval.read': read('viewer', 'audit', '/v1/admin/approval-events'),
  'audit.command.read': read('viewer', 'audit', '/v1/admin/command-events'),
  'audit.summary.read': read('viewer', 'audit', '/v1/admin/audit/summary'),
  'audit.chain.verify': read('viewer', 'audit', '/v1/admin/audit/verify'),
  'audit.chain.export': read('viewer', 'audit', '/v1/admin/audit/export'),
  'approval.policy.read': read('viewer', 'audit', '/v1/admin/approval-policy'),

  'gateway_key.issue': change(
    'admin',
    'key_management',
    'gateway_key',
    ['POST', '/v1/admin/customers/:customer_id/keys'],
    reasonAndTwoPeople,
  ),
  'gateway_key.rotate': change(
    'admin',
    'key_management',
    'gateway_key',
    ['POST', '/v1/admin/keys/:key_id/rotate'],
    reasonAndTwoPeople,
  ),
  'gateway_key.revoke': change(
    'admin',
    'key_management',
    'gateway_key',
    ['DELETE', '/v1/admin/keys/:key_id'],
    reasonAndTwoPeople,
  ),
  'gateway_key.list': read('operator', 'key_management', '/v1/admin/customers/:customer_id/keys'),

  'customer.create': change('admin', 'billing', 'customer', ['POST', '/v1/admin/customers']),
  'customer.update': change('admin', 'billing', 'customer', ['PATCH', '/v1/admin/customers/:customer_id']),
  'customer.token.rotate': change('admin', 'billing', 'customer', ['POST', '/v1/admin/customers/:customer_id/token']),
  'customer.webhook_secret.rotate': change('admin', 'billing', 'customer', [
    'POST',
    '/v1/admin/customers/:customer_id/webhook-secret',
  ]),
  'customer.list': read('operator', 'observability', '/v1/admin/customers'),
  'customer.read': read('operator', 'observability', '/v1/admin/customers/:customer_id'),

  'node.enroll': change('operator', 'node_control', 'enrollment_token', ['POST', '/v1/admin/enrollment-tokens']),
  'node.enroll.withdraw': change('operator', 'node_control', 'enrollment_token', [
    'DELETE',
    '/v1/admin/enrollment-tokens/:token_id',
  ]),
  'node.enroll.list': read('operator', 'node_control', '/v1/admin/enrollment-tokens'),
  'node.register': change('operator', 'node_control', 'node', ['POST', '/v1/admin/nodes']),
  'node.update': change('operator', 'node_control', 'node', ['PATCH', '/v1/admin/nodes/:node_id']),
  'node.delete': change('admin', 'node_control', 'node', ['DELETE', '/v1/admin/nodes/:node_id']),
  'node.drain': change(
    'operator',
    'node_control',
    'node',
    ['POST', '/v1/admin/nodes/:node_id/drain'],
    tellsMachine('node.drain'),
  ),
  'node.resume': change(
    'operator',
    'node_control',
    'node',
    ['POST', '/v1/admin/nodes/:node_id/resume'],
    tellsMachine('node.resume'),
  ),
  'node.revoke': change(
    'admin',
    'node_control',
    'node',
    ['POST', '/v1/admin/nodes/:node_id/revoke'],
    tellsMachine('node.revoke'),
  ),
  'node.model.load': change(
    'operator',
    'node_control',
    'node',
    ['POST', '/v1/admin/nodes/:node_id/models/load'],
    tellsMachine('model.load'),
  ),
  'node.model.unload': change(
    'operator',
    'node_control',
    'node',
    ['POST', '/v1/admin/nodes/:node_id/models/unload'],
    tellsMachine('model.unload'),
  ),
  /** It changes nothing, but its body may hold a key, which belongs in no query. */
  'node.probe': { ...read('operator', 'node_control', '/v1/admin/nodes/probe'), method: 'POST' },
  'node.list': read('viewer', 'node_control', '/v1/admin/nodes'),
  'node.read': read('viewer', 'node_control', '/v1/admin/nodes/:node_id'),

  'model.update': change('operator', 'catalogue', 'model', ['PUT', '/v1/admin/models'], noReasonYet),
  'model.edit': change('operator', 'catalogue', 'model', ['PATCH', '/v1/admin/models'], noReasonYet),
  'model.delete': change('operator', 'catalogue', 'model', ['DELETE', '/v1/admin/models'], noReasonYet),
  'model.list': read('viewer', 'catalogue', '/v1/admin/models'),

  'command.cancel': change(
    'operator',
    'node_control',
    'command',
    ['POST', '/v1/admin/commands/:command_id/cancel'],
    tellsMachine('job.cancel'),
  ),
  'command.read': read('viewer', 'node_control', '/v1/admin/commands/:command_id'),
  'job.list': read('viewer', 'private_jobs', '/v1/admin/jobs'),
  'webhook.redeliver': change('operator', 'private_jobs', 'webhook', [
    'POST',
    '/v1/admin/webhooks/:webhook_id/redeliver',
  ]),
  'webhook.list': read('viewer', 'private_jobs', '/v1/admin/webhooks'),

  'payout.batch.create': change('admin', 'settlement', 'payout_batch', ['POST', '/v1/admin/payout-batches'], {
    ...twoPeople,
    dryRun: true,
  }),
  'payout.batch.submit': change(
    'admin',
    'settlement',
    'payout_batch',
    ['POST', '/v1/admin/payout-batches/:batch_id/submit'],
    twoPeople,
  ),
  'payout.batch.retry': change(
    'admin',
    'settlement',
    'payout_batch',
    ['POST', '/v1/admin/payout-batches/:batch_id/retry'],
    twoPeople,
  ),
  'payout.batch.list': read('viewer', 'settlement', '/v1/admin/payout-batches'),
  'payout.batch.proofs': read('viewer', 'settlement', '/v1/admin/payout-batches/:batch_id/proofs'),
  'receipt.release': change(
    'admin',
    'settlement',
    'receipt',
    ['POST', '/v1/admin/receipts/:receipt_hash/release'],
    twoPeople,
  ),
  'receipt.reject': change(
    'admin',
    'settlement',
    'receipt',
    ['POST', '/v1/admin/receipts/:receipt_hash/reject'],
    twoPeople,
  ),
  'log.fork': change('admin', 'settlement', 'log', ['POST', '/v1/admin/log/fork'], {
    ...twoPeople,
    typedConfirmation: forkConfirmation,
  }),
  'ledger.proof.read': read('operator', 'observability', '/v1/admin/ledger/proof'),
  'ledger.check.read': read('operator', 'billing', '/v1/admin/ledger/check'),

  'receipt.read': read('viewer', 'settlement', '/v1/admin/receipts/:receipt_hash'),
  'request.list': read('viewer', 'observability', '/v1/admin/requests'),
  'traffic.read': read('viewer', 'observability', '/v1/admin/traffic'),
  'request.read': read('viewer', 'observability', '/v1/admin/requests/:request_id'),
  'explain.read': read('viewer', 'observability', '/v1/admin/explain'),
  'mixture.list': read('viewer', 'observability', '/v1/admin/mixtures'),
  'machine.list': read('viewer', 'observability', '/v1/admin/machines'),
  'machine.transitions': read('viewer', 'observability', '/v1/admin/machines/:machine/transitions'),
  'machine.inspect': read('viewer', 'observability', '/v1/admin/inspect'),
} as const satisfies Readonly<Record<string, AdminRoute>>

export type AdminAction = keyof typeof adminRoutes

const rows: Readonly<Record<string, AdminRoute>> = adminRoutes

export const adminRoute = (action: AdminAction): AdminRoute => adminRoutes[action]

/** What is wrong with the admin routes that are mounted; empty when each has its own row of the table. */
export function adminRouteFaults(
  mounted: readonly { readonly method: string; readonly path: string; readonly action: string | null }[],
): readonly string[] {
  const seen = new Set<string>()
  return mounted.flatMap(({ method, path, action }) => {
    const place = `${method} ${path}`
    if (action === null) return [`${place} names no action`]
    const row = rows[action]
    if (row === undefined) return [`${place}: no row ${action}`]
    if (row.method !== method || row.path !== path) return [`${place}: ${action} is ${row.method} ${row.path}`]
    if (seen.has(action)) return [`${place}: ${action} is mounted twice`]
    seen.add(action)
    return []
  })
}
