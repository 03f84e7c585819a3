import { type Static, Type } from '@sinclair/typebox'
import { brand } from '../../../brand.ts'
import { count, Instant, literals, nullable } from '../shapes.ts'

const role = literals(['admin', 'operator', 'viewer'])

/** Endpoint 20. */
export const ApprovalPolicy = Type.Object({
  object: Type.Literal(`${brand}.admin.approval_policy`),
  generated_at: Instant,
  policy_version: Type.Literal('admin_approval_policy_v1'),
  auth_model: Type.Literal('bootstrap_role_tokens'),
  workflow_status: literals(['transitional', 'ready']),
  actor_role: role,
  storage: Type.Object({
    events_table: Type.Literal('admin_approval_events'),
    events_table_present: Type.Boolean(),
    status: literals(['ready', 'missing']),
    retention_policy: Type.Literal('admin_audit_events_v1'),
  }),
  production_blocked_by: Type.Array(
    literals([
      'approval_events_table_missing',
      'admin_token_shared_across_roles',
      'audit_hmac_key_missing',
      'reason_not_enforced',
      'second_approver_not_configured',
      'audit_min_retention_low',
    ]),
  ),
  summary: Type.Object({
    high_risk_action_count: count,
    reason_required_count: count,
    typed_confirmation_count: count,
    dry_run_supported_count: count,
  }),
  actions: Type.Array(
    Type.Object({
      action: Type.String(),
      category: Type.String(),
      method: Type.String(),
      route_template: Type.String(),
      required_role: role,
      reason_required: Type.Boolean(),
      typed_confirmation: nullable(Type.String()),
      dry_run_supported: Type.Boolean(),
      current_enforcement: Type.String(),
      production_requirement: Type.String(),
    }),
  ),
})
export type ApprovalPolicy = Static<typeof ApprovalPolicy>
