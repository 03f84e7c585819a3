import { type AnyElysia, Elysia } from 'elysia'
import { headers } from '../../brand.ts'
import { errorsPath, Problem } from '../../errors.ts'
import { packageFile, programFile } from '../../host/program-files.ts'
import { errorsPage } from '../docs/errors-page.ts'
import type { HttpContext } from '../frame/context.ts'
import { openApiDocument } from '../openapi/document.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { documentationPath, openApiPath } from './endpoint-index.ts'

const own = (file: string) => programFile(`src/http/docs/${file}`)
/** Only these files are served, and the name in the path never becomes part of a file name. */
const assets: ReadonlyMap<string, string> = new Map([
  ...['swagger-ui-bundle.js', 'swagger-ui.css', 'favicon-32x32.png'].map(
    (file) => [file, packageFile('swagger-ui-dist', file)] as const,
  ),
  ['docs.js', own('docs.js')],
  ['errors.css', own('errors.css')],
])
/** Swagger UI writes `style` attributes and shows its icons from `data:` URLs; all the rest comes from here. */
const contentPolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
/** A page without a script. */
const errorsPolicy = [
  "default-src 'none'",
  "style-src 'self'",
  "img-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')
const documentCache = 'public, max-age=300'
const assetCache = 'public, max-age=86400'

const pageHeaders = (type: string, policy: string) => ({
  'content-type': type,
  'cache-control': documentCache,
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
})

/** `/openapi.json` and Swagger UI from local files: the page needs no other host. */
export const docsRoutes = (context: HttpContext, app: () => AnyElysia) => {
  let document: string | null = null
  let errors: string | null = null
  return new Elysia()
    .use(publicReads(context, 'own'))
    .get(
      openApiPath,
      ({ exchange }) => {
        document ??= JSON.stringify(openApiDocument(app(), context.gateway.baseUrl()))
        return new Response(document, {
          headers: {
            'content-type': 'application/json',
            'cache-control': documentCache,
            [headers.requestId]: exchange.requestId,
          },
        })
      },
      { detail: { hide: true } },
    )
    .get(
      documentationPath,
      () =>
        new Response(Bun.file(own('docs.html')), { headers: pageHeaders('text/html; charset=utf-8', contentPolicy) }),
      { detail: { hide: true } },
    )
    .get(
      errorsPath,
      () => {
        errors ??= errorsPage()
        return new Response(errors, { headers: pageHeaders('text/html; charset=utf-8', errorsPolicy) })
      },
      { detail: { hide: true } },
    )
    .get(
      `${documentationPath}/assets/:file`,
      ({ params }) => {
        const path = assets.get(params.file)
        if (path === undefined) throw new Problem('route_not_found')
        return new Response(Bun.file(path), { headers: { 'cache-control': assetCache } })
      },
      { detail: { hide: true } },
    )
}
