import { Elysia } from 'elysia'
import { RouterKeys } from '../../../protocol/wire/nodes/agent.ts'
import type { HttpContext } from '../../frame/context.ts'
import { describe } from '../../frame/route-table.ts'
import { publicReads } from '../../plugins/rate-limit.ts'
import { requestId } from '../../plugins/request-id.ts'

/** How agents learn of a new key of the gateway before the old one goes (§22). */
export const routerKeyRoutes = (context: HttpContext) =>
  new Elysia()
    .use(requestId(context))
    .use(publicReads(context, 'own'))
    .get('/v1/node-agent/router-keys', () => context.gateway.routerKeys, {
      response: { 200: RouterKeys },
      detail: {
        ...describe({
          summary: 'List the keys by which agents recognize this gateway',
          description: 'The newest key comes first. Each key signs the list. See docs/protocol.md, signatures.',
          tags: ['Node agents (extension)'],
        }),
        security: [],
      },
    })
