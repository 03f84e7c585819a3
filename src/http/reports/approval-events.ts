import { brand } from '../../brand.ts'
import { type EventPage, listApprovalEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { ApprovalEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { filter, type QueryValues } from '../frame/query.ts'
import { approvalEventView } from '../views/audit.ts'
import { eventPage, eventPages, eventQuery, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

const query = {
  action: filter('`gateway_key.issue`'),
  category: filter('`key_management`'),
  target_type: filter('`gateway_key`'),
  target_id: filter('Exactly'),
  actor_role: roleFilter,
  ...eventQuery,
} as const

const columns = [
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
] as const

function asked({ gateway: { db } }: HttpContext, given: QueryValues<typeof query>) {
  const { action, category, target_type, target_id } = given
  const actor_role = given.actor_role as AdminRole | null
  const filters = { action, category, targetType: target_type, targetId: target_id, actorRole: actor_role }
  return {
    echoed: { action, category, target_type, target_id, actor_role },
    read: (limit: number, page: EventPage) => listApprovalEvents(db, filters, limit, page),
  }
}

/** Endpoint 17: what was agreed to. */
export const approvalEvents = report({
  action: 'audit.approval.read',
  tag: 'Audit',
  summary: 'List approvals, newest first',
  query,
  response: ApprovalEventList,
  read: async (context, { query, nowMs }) => {
    const { echoed, read } = asked(context, query)
    const { shown, page } = await eventPage(query, read)
    return {
      object: `${brand}.admin.approval_event_list` as const,
      generated_at: isoTime(nowMs),
      count: shown.length,
      ...echoed,
      ...page,
      events: shown.map(approvalEventView),
    }
  },
  csv: {
    name: 'approval-events',
    columns,
    pages: async function* (context, { query }, most) {
      for await (const rows of eventPages(query, most, asked(context, query).read)) {
        yield rows
          .map(approvalEventView)
          .map((event) => columns.map((name) => (name === 'metadata' ? canonicalJson(event.metadata) : event[name])))
      }
    },
  },
})
