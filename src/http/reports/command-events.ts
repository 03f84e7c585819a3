import { brand } from '../../brand.ts'
import { listCommandEvents } from '../../db/queries/audit/audit-events.ts'
import type { AdminRole } from '../../machines/rules/approval-policy.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { CommandEventList } from '../../protocol/wire/admin/audit.ts'
import { isoTime } from '../../time.ts'
import { filter } from '../frame/query.ts'
import { commandEventView } from '../views/audit.ts'
import { eventLimit, roleFilter } from './audit-filters.ts'
import { report } from './report.ts'

/** Endpoint 18: the commands that nodes got. */
export const commandEvents = report({
  action: 'audit.command.read',
  tag: 'Audit',
  summary: 'List commands to nodes, newest first',
  query: {
    command_id: filter('`cmd_…`'),
    action: filter('`node.drain`'),
    actor_role: roleFilter,
    limit: eventLimit,
  },
  response: CommandEventList,
  read: async ({ gateway }, { query: { limit, ...query }, nowMs }) => {
    const echoed = { ...query, actor_role: query.actor_role as AdminRole | null }
    const { action, command_id: commandId, actor_role: actorRole } = echoed
    const rows = await listCommandEvents(gateway.db, { action, commandId, actorRole }, limit)
    return {
      object: `${brand}.admin.command_event_list` as const,
      generated_at: isoTime(nowMs),
      count: rows.length,
      ...echoed,
      events: rows.map(commandEventView),
    }
  },
  csv: {
    name: 'command-events',
    columns: ['event_id', 'created_at', 'command_id', 'action', 'actor_type', 'actor_role', 'reason', 'metadata'],
    rows: ({ events }) =>
      events.map((event) => [
        event.event_id,
        event.created_at,
        event.command_id,
        event.action,
        event.actor_type,
        event.actor_role,
        event.reason,
        canonicalJson(event.metadata),
      ]),
  },
})
