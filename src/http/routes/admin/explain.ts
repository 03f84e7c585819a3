import { Elysia } from 'elysia'
import { Problem } from '../../../errors.ts'
import { Explanation } from '../../../protocol/wire/admin/admin.ts'
import type { HttpContext } from '../../frame/context.ts'
import { asks, text } from '../../frame/query.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { explanationOf } from '../../views/own.ts'

const query = {
  request_id: text(
    '^req_[0-9A-Z]{26}$',
    'the `x-request-id` of a request: req_ and 26 digits or capital letters',
    'The `x-request-id` of a chat request',
  ),
}

/** Why this node, and why not the others (§23). */
export const explainRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/explain',
    async ({ actor: { role }, query: { request_id } }) => {
      const found = await explanationOf(context.gateway, request_id, role)
      if (found === null) throw new Problem('request_not_found')
      return found
    },
    {
      action: 'explain.read',
      response: { 200: Explanation },
      ...asks(query),
      detail: describe({
        summary: 'Explain why a request went to its node',
        description: 'Each process of this gateway remembers its last 10 000 requests.',
        tags: ['Nodes (extension)'],
      }),
    },
  )
