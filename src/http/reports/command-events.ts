import { listCommandEvents } from '../../db/queries/audit/audit-events.ts'
import { canonicalJson } from '../../protocol/json/canonical-json.ts'
import { CommandEventList } from '../../protocol/wire/admin/audit.ts'
import { filter } from '../../protocol/wire/query.ts'
import { commandEventView } from '../views/audit.ts'
import { eventReport } from './event-report.ts'

/** Endpoint 18: the commands that nodes got. */
export const commandEvents = eventReport({
  action: 'audit.command.read',
  kind: 'command',
  summary: 'List commands to nodes, newest first',
  filters: { command_id: filter('`cmd_…`'), action: filter('`node.drain`') },
  response: CommandEventList,
  columns: ['event_id', 'created_at', 'command_id', 'action', 'actor_type', 'actor_role', 'reason', 'metadata'],
  list: (db, { command_id: commandId, action }, who) => {
    const filters = { action, commandId, ...who }
    return (limit, page) => listCommandEvents(db, filters, limit, page)
  },
  view: commandEventView,
  cell: (event, column) => (column === 'metadata' ? canonicalJson(event.metadata) : event[column]),
})
