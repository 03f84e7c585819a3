import { Elysia } from 'elysia'
import { headers } from '../../brand.ts'
import { beginExchange, endExchange, type HttpContext } from '../frame/context.ts'

/**
 * Gives every request of the routes that use it an id, the common headers, and its one log line. Chat does all this by
 * itself, so the hooks are scoped and add nothing to it.
 */
export const requestId = (context: HttpContext) =>
  new Elysia({ name: 'request-id' })
    .derive({ as: 'scoped' }, ({ request, server, set }) => {
      const exchange = beginExchange(context, request, server)
      Object.assign(set.headers, context.base, {
        'cache-control': 'no-store',
        [headers.requestId]: exchange.requestId,
      })
      return { exchange }
    })
    .onAfterResponse({ as: 'scoped' }, ({ exchange, request, route, set }) => {
      const status = typeof set.status === 'number' ? set.status : 200
      endExchange(context, exchange, { route, method: request.method, status })
    })
