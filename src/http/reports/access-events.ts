import { brand } from '../../brand.ts'
import { type EventPage, listAccessEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import { AccessEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { filter, type QueryValues } from '../frame/query.ts'
import { accessEventView } from '../views/audit.ts'
import { eventPage, eventPages, eventQuery, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

const query = {
  method: filter('`GET`, `POST`, …', '^[A-Z]{1,128}$', 'a method in capital letters, such as GET'),
  path_template: filter('`/v1/admin/commands/:command_id`'),
  status_code: filter('100 to 599', '^[1-5][0-9]{2}$', 'an HTTP status from 100 to 599'),
  actor_role: roleFilter,
  ...eventQuery,
} as const

const columns = [
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
] as const

function asked({ gateway: { db } }: HttpContext, given: QueryValues<typeof query>) {
  const { method, path_template: pathTemplate } = given
  const statusCode = given.status_code === null ? null : Number(given.status_code)
  const actorRole = given.actor_role as AdminRole | null
  const filters = { method, pathTemplate, statusCode, actorRole }
  return { filters, read: (limit: number, page: EventPage) => listAccessEvents(db, filters, limit, page) }
}

/** Endpoint 16: what was asked of `/v1/admin`. */
export const accessEvents = report({
  action: 'audit.access.read',
  tag: 'Audit',
  summary: 'List admin calls, newest first',
  query,
  response: AccessEventList,
  read: async (context, { query, nowMs }) => {
    const { filters, read } = asked(context, query)
    const { shown, page } = await eventPage(query, read)
    return {
      object: `${brand}.admin.access_event_list` as const,
      generated_at: isoTime(nowMs),
      count: shown.length,
      method: filters.method,
      path_template: filters.pathTemplate,
      status_code: filters.statusCode,
      actor_role: filters.actorRole,
      ...page,
      events: shown.map(accessEventView),
    }
  },
  csv: {
    name: 'access-events',
    columns,
    pages: async function* (context, { query }, most) {
      for await (const rows of eventPages(query, most, asked(context, query).read)) {
        yield rows
          .map(accessEventView)
          .map((event) => columns.map((name) => (name === 'query_keys' ? event.query_keys.join(' ') : event[name])))
      }
    },
  },
})
