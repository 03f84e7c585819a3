import { Value } from '@sinclair/typebox/value'
import { Elysia } from 'elysia'
import { createSnapshot } from '../../actors/durable/snapshot.ts'
import { Marketplace } from '../../protocol/wire/money/pricing.ts'
import { sha256Hex } from '../../secrets.ts'
import { secondMs } from '../../time.ts'
import type { HttpContext } from '../frame/context.ts'
import { describe } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { marketplaceView } from '../views/marketplace.ts'

const snapshotMs = 15 * secondMs
const cache = 'public, max-age=15, s-maxage=15'
const etagCharacters = 32

/** Whether one of the tags of `If-None-Match` is ours; a weak one is as good here (RFC 9110, 13.1.2). */
function matches(header: string | null, etag: string): boolean {
  if (header === null) return false
  return header.split(',').some((tag) => tag.trim() === '*' || tag.trim().replace(/^W\//, '') === etag)
}

/** Endpoint 10: one snapshot for every caller, the same bytes; a credential that is sent is not looked at. */
export const marketplaceRoutes = (context: HttpContext) => {
  const { gateway } = context
  const snapshot = createSnapshot(snapshotMs, async () => {
    const view = marketplaceView(gateway.router.table(), await gateway.pool.modelEntries(), Date.now())
    // The bytes are kept, so fields that Elysia would remove from each answer are removed here.
    const body = JSON.stringify(Value.Clean(Marketplace, view))
    return { body, etag: `"${sha256Hex(body).slice(0, etagCharacters)}"` }
  })
  return new Elysia().use(publicReads(context, 'any')).get(
    `/${gateway.config.SVC_MARKETPLACE_SEGMENT}/models`,
    async ({ request, set }): Promise<never> => {
      const { body, etag } = await snapshot()
      const headers = { ...(set.headers as Record<string, string>), 'cache-control': cache, etag }
      const unchanged = matches(request.headers.get('if-none-match'), etag)
      if (unchanged) set.status = 304
      return (
        unchanged
          ? new Response(null, { status: 304, headers })
          : new Response(body, { headers: { ...headers, 'content-type': 'application/json' } })
      ) as never
    },
    {
      response: { 200: Marketplace },
      detail: {
        ...describe({
          summary: 'Marketplace catalogue',
          description:
            'The models of public nodes, for marketplaces. The gateway makes a new snapshot every 15 seconds, with an `ETag`.',
          tags: ['Service'],
        }),
        security: [],
      },
    },
  )
}
