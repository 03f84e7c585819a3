import { Type } from '@sinclair/typebox'
import { Elysia } from 'elysia'
import { Problem } from '../../../errors.ts'
import { RequestStory } from '../../../protocol/wire/admin/requests.ts'
import type { HttpContext } from '../../frame/context.ts'
import { describe } from '../../frame/route-table.ts'
import { admin } from '../../plugins/admin.ts'
import { explanationOf } from '../../views/own.ts'
import { requestOf } from '../../views/own-requests.ts'
import { requestStoryView } from '../../views/requests.ts'

const params = Type.Object({ request_id: Type.String() })
const idPattern = /^req_[0-9A-Z]{26}$/

/** One request with its story (§32). */
export const requestRoutes = (context: HttpContext) =>
  new Elysia().use(admin(context)).get(
    '/v1/admin/requests/:request_id',
    async ({ actor, params: { request_id: id } }) => {
      const { gateway } = context
      const row = idPattern.test(id) ? await requestOf(gateway, id) : null
      if (row === null) throw new Problem('request_not_found')
      return requestStoryView(row, await explanationOf(gateway, id, actor.role), actor.role, Date.now())
    },
    {
      action: 'request.read',
      params,
      response: { 200: RequestStory },
      detail: describe({
        summary: 'Read one request with its story',
        description:
          'Its row, the calls of nodes in their order, and why each node was chosen (of the last 10 000 requests of each process of the gateway that is asked).',
        tags: ['Requests (extension)'],
      }),
    },
  )
