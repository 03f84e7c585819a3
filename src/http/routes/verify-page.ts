import { Elysia } from 'elysia'
import { Problem } from '../../errors.ts'
import type { HttpContext } from '../frame/context.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { assetCache, contentPolicy, pageHeaders, respond } from './console.ts'

/** Its script may send nothing to anybody, not even to this gateway. */
const policy = contentPolicy("'none'", 'data:')

/** Where anybody verifies a proof in the browser (§31). */
export const verifyPageRoutes = (context: HttpContext) =>
  new Elysia()
    .use(publicReads(context, 'own'))
    .get('/verify', async () => respond(await context.gateway.verifyPage.html(), pageHeaders(policy)), {
      detail: { hide: true },
    })
    .get(
      '/verify/assets/:file',
      async ({ params: { file } }) => {
        const found = await context.gateway.verifyPage.asset(file)
        if (found === null) throw new Problem('route_not_found')
        return respond(found, { 'cache-control': assetCache })
      },
      { detail: { hide: true } },
    )
