import type { PurgeReport } from '../../actors/audit/audit-purge.ts'
import { brand } from '../../brand.ts'
import { AuditPurge, AuditPurgeRequest, purgeConfirmation } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import { defineAction } from '../frame/define-action.ts'

function purgeView({ status, eligible, purged, cutoff, purgedAt }: PurgeReport, olderThanDays: number): AuditPurge {
  return {
    object: `${brand}.admin.audit_retention_purge`,
    status,
    retention_policy: 'admin_audit_events_v1',
    eligible_access_event_count: eligible.access,
    eligible_command_event_count: eligible.command,
    eligible_approval_event_count: eligible.approval,
    eligible_total_event_count: eligible.access + eligible.command + eligible.approval,
    purged_access_event_count: purged.access,
    purged_command_event_count: purged.command,
    purged_approval_event_count: purged.approval,
    purged_total_event_count: purged.access + purged.command + purged.approval,
    older_than_days: olderThanDays,
    cutoff_created_before: isoTime(cutoff),
    purged_at: isoTime(purgedAt),
  }
}

/** Endpoint 21. */
export const purgeAudit = defineAction({
  name: 'audit.retention.purge',
  at: 'POST /v1/admin/retention/audit-events/purge',
  policy: {
    role: 'admin',
    category: 'retention',
    target: 'audit_events',
    reasonRequired: false,
    typedConfirmation: purgeConfirmation,
    dryRun: true,
    requirement: 'second_approver',
  },
  summary: 'Purge old audit events',
  tag: 'Audit',
  body: AuditPurgeRequest,
  result: AuditPurge,
  run: async ({ gateway, audit, body, lifted }) => {
    const input = { olderThanDays: body.older_than_days, dryRun: body.dry_run ?? false }
    // A purge waits for readers of the table, so its answer may take longer than a connection may be silent.
    const report = await lifted(() => gateway.auditPurge.run(input, audit))
    // What was purged has left its end in the log before anybody is told that it is gone.
    await gateway.sequencer.catchUp({ heads: true })
    return purgeView(report, input.olderThanDays)
  },
})
