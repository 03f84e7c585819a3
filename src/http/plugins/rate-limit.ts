import { Elysia } from 'elysia'
import type { HttpContext } from '../exchange.ts'
import { requestId } from './request-id.ts'

/** The public reads: so many a minute from one address, open to every web page (decisions §1, CORS). */
export const publicReads = (context: HttpContext) =>
  new Elysia({ name: 'public-reads' })
    .use(requestId(context))
    .derive(async ({ exchange, set }) => {
      const { gateway } = context
      set.headers['access-control-allow-origin'] = '*'
      Object.assign(set.headers, await gateway.limits.takePublic(gateway.hashAddress(exchange.address)))
      return {}
    })
    .as('scoped')
