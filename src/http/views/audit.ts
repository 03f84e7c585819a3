import type { AccessEventRow, ApprovalEventRow, CommandEventRow } from '../../db/queries/audit/audit-events.ts'
import type { AccessEvent, ApprovalEvent, CommandEvent } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'

/** Events as the specification shows them: request ids, writers and MACs stay inside. */

export function accessEventView(row: AccessEventRow): AccessEvent {
  return {
    event_id: row.eventId,
    actor_type: row.actorType,
    actor_role: row.actorRole,
    actor_hash_prefix: row.actorHashPrefix,
    method: row.method,
    path_template: row.pathTemplate,
    query_keys: [...row.queryKeys],
    status_code: row.statusCode,
    outcome: row.outcome,
    error_code: row.errorCode,
    user_agent_hash_prefix: row.userAgentHashPrefix,
    ip_hash_prefix: row.ipHashPrefix,
    created_at: isoTime(row.createdAt),
  }
}

export function approvalEventView(row: ApprovalEventRow): ApprovalEvent {
  return {
    event_id: row.eventId,
    action: row.action,
    category: row.category,
    target_type: row.targetType,
    target_id: row.targetId,
    actor_type: row.actorType,
    actor_role: row.actorRole,
    approval_policy: row.approvalPolicy,
    reason: row.reason,
    confirmation: row.confirmation,
    metadata: row.metadata,
    created_at: isoTime(row.createdAt),
  }
}

export function commandEventView(row: CommandEventRow): CommandEvent {
  return {
    event_id: row.eventId,
    command_id: row.commandId,
    action: row.action,
    actor_type: row.actorType,
    actor_role: row.actorRole,
    reason: row.reason,
    metadata: row.metadata,
    created_at: isoTime(row.createdAt),
  }
}
