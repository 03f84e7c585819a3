import { adminRoutes } from '../../actions/registry.ts'
import { brand } from '../../brand.ts'
import { approvalTablePresent } from '../../db/queries/audit/audit-summary.ts'
import {
  type AdminRoute,
  approvalPolicyVersion,
  currentEnforcement,
  type Enforcement,
} from '../../machines/rules/admin-route.ts'
import { workflowBlockers, workflowStatus } from '../../machines/rules/workflow-status.ts'
import { ApprovalPolicy } from '../../protocol/wire/admin/approval-policy.ts'
import { isoTime } from '../../time.ts'
import { report } from './report.ts'

const rows: readonly AdminRoute[] = Object.values(adminRoutes)

const actionViews = (enforcement: Enforcement) =>
  rows.map((row) => ({
    action: row.action,
    category: row.category,
    method: row.method,
    route_template: row.path,
    required_role: row.role,
    reason_required: row.reasonRequired,
    typed_confirmation: row.typedConfirmation,
    dry_run_supported: row.dryRun,
    current_enforcement: currentEnforcement(row, enforcement),
    production_requirement: row.productionRequirement,
  }))

const countOf = (holds: (row: AdminRoute) => boolean) => rows.filter(holds).length
const summary = {
  high_risk_action_count: countOf(({ role }) => role === 'admin'),
  reason_required_count: countOf(({ reasonRequired }) => reasonRequired),
  typed_confirmation_count: countOf(({ typedConfirmation }) => typedConfirmation !== null),
  dry_run_supported_count: countOf(({ dryRun }) => dryRun),
}

/** Endpoint 20: what each admin action asks for, and what production would still miss. */
export const approvalPolicy = report({
  action: 'approval.policy.read',
  tag: 'Audit',
  summary: 'Approval policy',
  query: {},
  response: ApprovalPolicy,
  read: async ({ gateway: { db, config, access } }, { role, nowMs }) => {
    const present = await approvalTablePresent(db)
    const enforcement = {
      reasonEnforced: config.SVC_ENFORCE_REASON,
      secondApproverRequired: config.SVC_REQUIRE_SECOND_APPROVER,
    }
    const blockers = workflowBlockers({
      approvalTablePresent: present,
      tokenSharedAcrossRoles: access.tokenSharedAcrossRoles(),
      auditKeyGiven: config.SVC_AUDIT_KEY !== null,
      ...enforcement,
      retentionDaysMin: config.SVC_AUDIT_MIN_RETENTION_DAYS,
    })
    return {
      object: `${brand}.admin.approval_policy` as const,
      generated_at: isoTime(nowMs),
      policy_version: approvalPolicyVersion,
      auth_model: 'bootstrap_role_tokens' as const,
      workflow_status: workflowStatus(blockers),
      actor_role: role,
      storage: {
        events_table: 'admin_approval_events' as const,
        events_table_present: present,
        status: present ? ('ready' as const) : ('missing' as const),
        retention_policy: 'admin_audit_events_v1' as const,
      },
      production_blocked_by: [...blockers],
      summary,
      actions: actionViews(enforcement),
    }
  },
})
