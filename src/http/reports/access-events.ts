import { listAccessEvents } from '../../db/queries/audit/audit-events.ts'
import { AccessEventList } from '../../protocol/wire/admin/audit.ts'
import { filter } from '../../protocol/wire/query.ts'
import { accessEventView } from '../views/audit.ts'
import { eventReport } from './event-report.ts'

/** Endpoint 16: what was asked of `/v1/admin`. */
export const accessEvents = eventReport({
  action: 'audit.access.read',
  kind: 'access',
  summary: 'List admin calls, newest first',
  filters: {
    method: filter('`GET`, `POST`, …', '^[A-Z]{1,128}$', 'a method in capital letters, such as GET'),
    path_template: filter('`/v1/admin/commands/:command_id`'),
    status_code: filter('100 to 599', '^[1-5][0-9]{2}$', 'an HTTP status from 100 to 599'),
  },
  repeat: (name, value) => (name === 'status_code' && value !== null ? Number(value) : value),
  response: AccessEventList,
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
  list: (db, { method, path_template: pathTemplate, status_code: status }, who) => {
    const filters = { method, pathTemplate, statusCode: status === null ? null : Number(status), ...who }
    return (limit, page) => listAccessEvents(db, filters, limit, page)
  },
  view: accessEventView,
  cell: (event, column) => (column === 'query_keys' ? event.query_keys.join(' ') : event[column]),
})
