import { brand } from '../../brand.ts'
import { listApprovalEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/approval-policy.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { ApprovalEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import { filter } from '../frame/query.ts'
import { approvalEventView } from '../views/audit.ts'
import { eventLimit, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

/** Endpoint 17: what was agreed to. */
export const approvalEvents = report({
  action: 'audit.approval.read',
  tag: 'Audit',
  summary: 'List approvals, newest first',
  query: {
    action: filter('`gateway_key.issue`'),
    category: filter('`key_management`'),
    target_type: filter('`gateway_key`'),
    target_id: filter('Exactly'),
    actor_role: roleFilter,
    limit: eventLimit,
  },
  response: ApprovalEventList,
  read: async ({ gateway }, { query: { limit, ...query }, nowMs }) => {
    const echoed = { ...query, actor_role: query.actor_role as AdminRole | null }
    const { action, category, target_type: targetType, target_id: targetId, actor_role: actorRole } = echoed
    const filters = { action, category, targetType, targetId, actorRole }
    const rows = await listApprovalEvents(gateway.db, filters, limit)
    return {
      object: `${brand}.admin.approval_event_list` as const,
      generated_at: isoTime(nowMs),
      count: rows.length,
      ...echoed,
      events: rows.map(approvalEventView),
    }
  },
  csv: {
    name: 'approval-events',
    columns: [
      'event_id',
      'created_at',
      'action',
      'category',
      'target_type',
      'target_id',
      'actor_type',
      'actor_role',
      'approval_policy',
      'reason',
      'confirmation',
      'metadata',
    ],
    rows: ({ events }) =>
      events.map((event) => [
        event.event_id,
        event.created_at,
        event.action,
        event.category,
        event.target_type,
        event.target_id,
        event.actor_type,
        event.actor_role,
        event.approval_policy,
        event.reason,
        event.confirmation,
        canonicalJson(event.metadata),
      ]),
  },
})
