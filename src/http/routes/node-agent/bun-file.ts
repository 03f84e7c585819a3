import { Elysia } from 'elysia'
import { ownBun } from '../../../actors/agents/own-bun.ts'
import { headers } from '../../../brand.ts'
import { Problem } from '../../../errors.ts'
import type { HttpContext } from '../../frame/context.ts'
import { bunFileRoute, sentKey } from '../../frame/credential.ts'
import { refusedLogin } from '../../frame/refused-login.ts'
import { describe } from '../../frame/route-table.ts'
import { requestId } from '../../plugins/request-id.ts'

/** Bun for the agent, where the other computer has none: 100 MB, so only for a holder of an open enrolment token. */
export const bunFileRoutes = (context: HttpContext) =>
  new Elysia().use(requestId(context)).get(
    bunFileRoute,
    async ({ exchange, request }) => {
      const { gateway } = context
      if (!(await gateway.enrollment.isOpen(sentKey(request) ?? ''))) {
        throw refusedLogin(gateway, exchange.address, new Problem('enrollment_token_invalid'))
      }
      const bun = await ownBun()
      if (bun === null)
        throw new Problem('route_not_found', { detail: 'This gateway runs on no Bun that it could pass on' })
      return new Response(Bun.file(bun.file), {
        headers: { etag: `"${bun.sha256}"`, 'cache-control': 'no-store', [headers.requestId]: exchange.requestId },
      })
    },
    {
      detail: {
        ...describe({
          summary: 'Download the Bun on which this gateway runs',
          description: 'For computers of the same platform. Needs an open enrolment token as bearer; it stays open.',
          tags: ['Node agents (extension)'],
          mediaType: 'application/octet-stream',
        }),
        security: [],
      },
    },
  )
