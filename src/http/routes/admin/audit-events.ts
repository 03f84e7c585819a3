import { Elysia } from 'elysia'
import type { Role } from '../../../actors/access.ts'
import { brand } from '../../../brand.ts'
import { listAccessEvents, listApprovalEvents, listCommandEvents } from '../../../db/queries/audit-events.ts'
import { AccessEventList, ApprovalEventList, CommandEventList } from '../../../protocol/wire/audit.ts'
import { isoTime } from '../../../time.ts'
import { accessEventView, approvalEventView, commandEventView } from '../../audit-view.ts'
import type { HttpContext } from '../../exchange.ts'
import { admin } from '../../plugins/admin.ts'
import { limitOf, readQuery } from '../../query.ts'
import { describe } from '../../route-table.ts'

const tags = ['Audit']
const filter = (description: string, pattern = /^[^\u0000-\u001f\u007f]{1,128}$/) =>
  ({ kind: 'text', pattern, required: false, description }) as const
const limit = limitOf(100, 1_000)
const actorRole = filter('`admin`, `operator` or `viewer`', /^(?:admin|operator|viewer)$/)

export const accessQuery = {
  method: filter('`GET`, `POST`, …', /^[A-Z]{1,128}$/),
  path_template: filter('`/v1/admin/commands/:command_id`'),
  status_code: filter('100 to 599', /^[1-5][0-9]{2}$/),
  actor_role: actorRole,
  limit,
}
export const approvalQuery = {
  action: filter('`gateway_key.issue`'),
  category: filter('`key_management`'),
  target_type: filter('`gateway_key`'),
  target_id: filter('Exactly'),
  actor_role: actorRole,
  limit,
}
export const commandQuery = {
  command_id: filter('`cmd_…`'),
  action: filter('`node.drain`'),
  actor_role: actorRole,
  limit,
}

const lists = (context: HttpContext) => {
  const { db } = context.gateway
  const listOf = <N extends string, E>(name: N, events: readonly E[]) => ({
    object: `${brand}.admin.${name}` as const,
    generated_at: isoTime(Date.now()),
    count: events.length,
    events: [...events],
  })
  return {
    access: async (url: string) => {
      const query = readQuery(url, accessQuery)
      const echoed = {
        method: query.method,
        path_template: query.path_template,
        status_code: query.status_code === null ? null : Number(query.status_code),
        actor_role: query.actor_role as Role | null,
      }
      const filters = {
        method: echoed.method,
        pathTemplate: echoed.path_template,
        statusCode: echoed.status_code,
        actorRole: echoed.actor_role,
      }
      const rows = await listAccessEvents(db, filters, query.limit)
      return { ...listOf('access_event_list', rows.map(accessEventView)), ...echoed }
    },
    approval: async (url: string) => {
      const { limit: most, ...query } = readQuery(url, approvalQuery)
      const echoed = { ...query, actor_role: query.actor_role as Role | null }
      const { action, category, target_type: targetType, target_id: targetId, actor_role } = echoed
      const filters = { action, category, targetType, targetId, actorRole: actor_role }
      const rows = await listApprovalEvents(db, filters, most)
      return { ...listOf('approval_event_list', rows.map(approvalEventView)), ...echoed }
    },
    command: async (url: string) => {
      const { limit: most, ...query } = readQuery(url, commandQuery)
      const echoed = { ...query, actor_role: query.actor_role as Role | null }
      const { action, command_id: commandId, actor_role } = echoed
      const rows = await listCommandEvents(db, { action, commandId, actorRole: actor_role }, most)
      return { ...listOf('command_event_list', rows.map(commandEventView)), ...echoed }
    },
  }
}

/** Endpoints 16 to 18: what was asked, what was agreed to and what was told to machines, newest first. */
export const auditEventRoutes = (context: HttpContext) => {
  const { access, approval, command } = lists(context)
  return new Elysia()
    .use(admin(context))
    .get('/v1/admin/access-events', ({ request }) => access(request.url), {
      action: 'audit.access.read',
      response: { 200: AccessEventList },
      detail: describe({ summary: 'List admin calls, newest first', tags, query: accessQuery }),
    })
    .get('/v1/admin/approval-events', ({ request }) => approval(request.url), {
      action: 'audit.approval.read',
      response: { 200: ApprovalEventList },
      detail: describe({ summary: 'List approvals, newest first', tags, query: approvalQuery }),
    })
    .get('/v1/admin/command-events', ({ request }) => command(request.url), {
      action: 'audit.command.read',
      response: { 200: CommandEventList },
      detail: describe({ summary: 'List what was told to machines, newest first', tags, query: commandQuery }),
    })
}
