import { Elysia } from 'elysia'
import type { PageFile } from '../../actors/console/console-page.ts'
import { Problem } from '../../errors.ts'
import type { HttpContext } from '../frame/context.ts'
import { publicReads } from '../plugins/rate-limit.ts'

export const consolePath = '/console'

/** The page may not use inline code, other hosts or frames. `connects`: where its script may send something. */
export const contentPolicy = (connects: "'self'" | "'none'", pictures = "'self'") =>
  [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    `img-src ${pictures}`,
    `connect-src ${connects}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
/** The names of all other files contain their hashes, so only the page itself must be requested again. */
const pageCache = 'no-cache'
export const assetCache = 'public, max-age=31536000, immutable'
const iconCache = 'public, max-age=86400'

export const respond = ({ bytes, type }: PageFile, headers: Readonly<Record<string, string>>) =>
  new Response(bytes, { headers: { 'content-type': type, 'x-content-type-options': 'nosniff', ...headers } })

export const pageHeaders = (policy: string) => ({
  'cache-control': pageCache,
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
  'cross-origin-opener-policy': 'same-origin',
})

/** The operators' page. It contains no data and reads everything with the operator's own token. */
export const consoleRoutes = (context: HttpContext) =>
  new Elysia()
    .use(publicReads(context, 'own'))
    .get(
      consolePath,
      async () => respond(await context.gateway.consolePage.html(), pageHeaders(contentPolicy("'self'"))),
      { detail: { hide: true } },
    )
    .get(
      `${consolePath}/assets/:file`,
      async ({ params: { file } }) => {
        const found = await context.gateway.consolePage.asset(file)
        if (found === null) throw new Problem('route_not_found')
        return respond(found, { 'cache-control': file === 'icon.svg' ? iconCache : assetCache })
      },
      { detail: { hide: true } },
    )
