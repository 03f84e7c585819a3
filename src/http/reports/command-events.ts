import { brand } from '../../brand.ts'
import { type EventPage, listCommandEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/admin-route.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { CommandEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { filter, type QueryValues } from '../frame/query.ts'
import { commandEventView } from '../views/audit.ts'
import { eventPage, eventPages, eventQuery, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

const query = {
  command_id: filter('`cmd_…`'),
  action: filter('`node.drain`'),
  actor_role: roleFilter,
  ...eventQuery,
} as const

const columns = [
  'event_id',
  'created_at',
  'command_id',
  'action',
  'actor_type',
  'actor_role',
  'reason',
  'metadata',
] as const

function asked({ gateway: { db } }: HttpContext, given: QueryValues<typeof query>) {
  const { action, command_id } = given
  const actor_role = given.actor_role as AdminRole | null
  const filters = { action, commandId: command_id, actorRole: actor_role }
  return {
    echoed: { command_id, action, actor_role },
    read: (limit: number, page: EventPage) => listCommandEvents(db, filters, limit, page),
  }
}

/** Endpoint 18: the commands that nodes got. */
export const commandEvents = report({
  action: 'audit.command.read',
  tag: 'Audit',
  summary: 'List commands to nodes, newest first',
  query,
  response: CommandEventList,
  read: async (context, { query, nowMs }) => {
    const { echoed, read } = asked(context, query)
    const { shown, page } = await eventPage(query, read)
    return {
      object: `${brand}.admin.command_event_list` as const,
      generated_at: isoTime(nowMs),
      count: shown.length,
      ...echoed,
      ...page,
      events: shown.map(commandEventView),
    }
  },
  csv: {
    name: 'command-events',
    columns,
    pages: async function* (context, { query }, most) {
      for await (const rows of eventPages(query, most, asked(context, query).read)) {
        yield rows
          .map(commandEventView)
          .map((event) => columns.map((name) => (name === 'metadata' ? canonicalJson(event.metadata) : event[name])))
      }
    },
  },
})
