import { listApprovalEvents } from '../../db/queries/audit/audit-events.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { ApprovalEventList } from '../../protocol/wire/admin/audit.ts'
import { filter } from '../../protocol/wire/query.ts'
import { approvalEventView } from '../views/audit.ts'
import { eventReport } from './event-report.ts'

/** Endpoint 17: what was agreed to. */
export const approvalEvents = eventReport({
  action: 'audit.approval.read',
  kind: 'approval',
  summary: 'List approvals, newest first',
  filters: {
    action: filter('`gateway_key.issue`'),
    category: filter('`key_management`'),
    target_type: filter('`gateway_key`'),
    target_id: filter('Exactly'),
  },
  response: ApprovalEventList,
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
  list: (db, { action, category, target_type: targetType, target_id: targetId }, who) => {
    const filters = { action, category, targetType, targetId, ...who }
    return (limit, page) => listApprovalEvents(db, filters, limit, page)
  },
  view: approvalEventView,
  cell: (event, column) => (column === 'metadata' ? canonicalJson(event.metadata) : event[column]),
})
