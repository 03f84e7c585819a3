/** Whether administration is protected as production requires (§16). */
export type WorkflowStatus = 'transitional' | 'ready'

export type WorkflowBlocker =
  | 'approval_events_table_missing'
  | 'admin_token_shared_across_roles'
  | 'audit_hmac_key_missing'
  | 'reason_not_enforced'
  | 'second_approver_not_configured'
  | 'audit_min_retention_low'

export interface WorkflowFacts {
  readonly approvalTablePresent: boolean
  readonly tokenSharedAcrossRoles: boolean
  /**
   * True if the operator gave the key. A key that the gateway made is stored beside the database that it should
   * protect.
   */
  readonly auditKeyGiven: boolean
  readonly reasonEnforced: boolean
  readonly secondApproverRequired: boolean
  readonly retentionDaysMin: number
}

const productionRetentionDays = 30

/** In the order of the specification. Empty means ready. */
export function workflowBlockers(facts: WorkflowFacts): readonly WorkflowBlocker[] {
  const blocked: readonly (readonly [WorkflowBlocker, boolean])[] = [
    ['approval_events_table_missing', !facts.approvalTablePresent],
    ['admin_token_shared_across_roles', facts.tokenSharedAcrossRoles],
    ['audit_hmac_key_missing', !facts.auditKeyGiven],
    ['reason_not_enforced', !facts.reasonEnforced],
    ['second_approver_not_configured', !facts.secondApproverRequired],
    ['audit_min_retention_low', facts.retentionDaysMin < productionRetentionDays],
  ]
  return blocked.filter(([, holds]) => holds).map(([name]) => name)
}

export const workflowStatus = (blockers: readonly WorkflowBlocker[]): WorkflowStatus =>
  blockers.length === 0 ? 'ready' : 'transitional'
