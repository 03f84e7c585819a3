import { Elysia } from 'elysia'
import { headers } from '../../../brand.ts'
import type { HttpContext } from '../../frame/context.ts'
import { agentFileRoute } from '../../frame/credential.ts'
import { describe } from '../../frame/route-table.ts'
import { publicReads } from '../../plugins/rate-limit.ts'

/** The agent itself, for the line that `nodes enroll` prints (§22). */
export const agentFileRoutes = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    agentFileRoute,
    async ({ exchange, request }) => {
      const { bytes, sha256 } = await context.gateway.agentBundle.file()
      const etag = `"${sha256}"`
      const head = { 'cache-control': 'no-cache', etag, [headers.requestId]: exchange.requestId }
      if (request.headers.get('if-none-match') === etag) return new Response(null, { status: 304, headers: head })
      return new Response(bytes, { headers: { ...head, 'content-type': 'text/javascript; charset=utf-8' } })
    },
    {
      detail: {
        ...describe({
          summary: 'Download the node agent as one file',
          description: 'The file runs with Bun. The `ETag` is its SHA-256 in hex.',
          tags: ['Node agents (extension)'],
          mediaType: 'text/javascript',
        }),
        security: [],
      },
    },
  )
