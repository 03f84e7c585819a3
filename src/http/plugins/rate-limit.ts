import { Elysia } from 'elysia'
import type { HttpContext } from '../frame/context.ts'
import { corsHeaders } from '../frame/cors.ts'
import { requestId } from './request-id.ts'

/**
 * Reads without a credential: so many a minute from one address. `origins`: the public GETs of the specification are
 * open to every web page, the rest is not (§1, CORS).
 */
export const publicReads = (context: HttpContext, origins: 'any' | 'own') =>
  new Elysia({ name: 'public-reads', seed: origins })
    .use(requestId(context))
    .derive(async ({ exchange, set }) => {
      const { gateway } = context
      if (origins === 'any') Object.assign(set.headers, corsHeaders)
      Object.assign(set.headers, await gateway.limits.takePublic(gateway.hashAddress(exchange.address)))
      return {}
    })
    .as('scoped')
