import { brand } from '../../brand.ts'
import { listAccessEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/approval-policy.ts'
import { AccessEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import { filter } from '../frame/query.ts'
import { accessEventView } from '../views/audit.ts'
import { eventLimit, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

/** Endpoint 16: what was asked of `/v1/admin`. */
export const accessEvents = report({
  action: 'audit.access.read',
  tag: 'Audit',
  summary: 'List admin calls, newest first',
  query: {
    method: filter('`GET`, `POST`, …', '^[A-Z]{1,128}$'),
    path_template: filter('`/v1/admin/commands/:command_id`'),
    status_code: filter('100 to 599', '^[1-5][0-9]{2}$'),
    actor_role: roleFilter,
    limit: eventLimit,
  },
  response: AccessEventList,
  read: async ({ gateway }, { query, nowMs }) => {
    const statusCode = query.status_code === null ? null : Number(query.status_code)
    const actorRole = query.actor_role as AdminRole | null
    const filters = { method: query.method, pathTemplate: query.path_template, statusCode, actorRole }
    const rows = await listAccessEvents(gateway.db, filters, query.limit)
    return {
      object: `${brand}.admin.access_event_list` as const,
      generated_at: isoTime(nowMs),
      count: rows.length,
      method: query.method,
      path_template: query.path_template,
      status_code: statusCode,
      actor_role: actorRole,
      events: rows.map(accessEventView),
    }
  },
  csv: {
    name: 'access-events',
    columns: [
      'event_id',
      'created_at',
      'actor_type',
      'actor_role',
      'actor_hash_prefix',
      'method',
      'path_template',
      'query_keys',
      'status_code',
      'outcome',
      'error_code',
      'user_agent_hash_prefix',
      'ip_hash_prefix',
    ],
    rows: ({ events }) =>
      events.map((event) => [
        event.event_id,
        event.created_at,
        event.actor_type,
        event.actor_role,
        event.actor_hash_prefix,
        event.method,
        event.path_template,
        event.query_keys.join(' '),
        event.status_code,
        event.outcome,
        event.error_code,
        event.user_agent_hash_prefix,
        event.ip_hash_prefix,
      ]),
  },
})
