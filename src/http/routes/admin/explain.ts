import { Elysia } from 'elysia'
import { Problem } from '../../../errors.ts'
import { Explanation } from '../../../protocol/wire/admin/admin.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, text } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { explanationView } from '../../views/admin.ts'

const query = {
  request_id: text('^req_[0-9A-Z]{26}$', 'The `x-request-id` of a chat request'),
}

/** Why this node, and why not the others (§23). */
export const explainRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/explain',
    ({ actor, query: { request_id } }) => {
      const found = context.gateway.explain(request_id)
      if (found === null) throw new Problem('request_not_found')
      return explanationView(found, actor.role)
    },
    {
      action: 'explain.read',
      response: { 200: Explanation },
      ...asks(query),
      detail: describe({
        summary: 'Why a request went where it went',
        description: 'The last 10 000 requests of this gateway, kept in memory.',
        tags: ['Nodes (extension)'],
      }),
    },
  )
