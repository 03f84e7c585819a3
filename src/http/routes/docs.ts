import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { type AnyElysia, Elysia } from 'elysia'
import { headers } from '../../brand.ts'
import { errorsPath, Problem } from '../../errors.ts'
import { embeddedFolder, packageFile, programFile } from '../../host/program-files.ts'
import { errorsPage } from '../docs/errors-page.ts'
import type { HttpContext } from '../frame/context.ts'
import { openApiDocument } from '../openapi/document.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { assetCache as hashedCache, contentPolicy as pagePolicy, respond } from './console.ts'
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

/** The documents may load their own script, style, pictures and index, and nothing from elsewhere. */
const manualHeaders = {
  'cache-control': documentCache,
  'content-security-policy': pagePolicy("'self'"),
  'referrer-policy': 'no-referrer',
}

const pageHeaders = (type: string, policy: string) => ({
  'content-type': type,
  'cache-control': documentCache,
  'content-security-policy': policy,
  'referrer-policy': 'no-referrer',
})

/** The pictures of the documents, by their paths below the folder. */
const pictureFolder = 'docs/images'
function pictures(): ReadonlyMap<string, string> {
  const built = embeddedFolder(pictureFolder)
  if (built.size > 0) return built
  const folder = programFile(pictureFolder)
  const names = existsSync(folder) ? [...new Bun.Glob('**/*.{png,svg}').scanSync({ cwd: folder })] : []
  return new Map(names.map((name) => [name, join(folder, name)]))
}

/** `/openapi.json`, Swagger UI and the documents from local files: the pages need no other host. */
export const docsRoutes = (context: HttpContext, app: () => AnyElysia) => {
  let document: string | null = null
  let errors: string | null = null
  let shown: ReadonlyMap<string, string> | null = null
  const { manual } = context.gateway
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
    .get(documentationPath, async () => respond(await manual.html(), manualHeaders), { detail: { hide: true } })
    .get(
      `${documentationPath}/api`,
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
      async ({ params }) => {
        const path = assets.get(params.file)
        if (path !== undefined) return new Response(Bun.file(path), { headers: { 'cache-control': assetCache } })
        const found = params.file.endsWith('.html') ? null : await manual.asset(params.file)
        if (found === null) throw new Problem('route_not_found')
        return respond(found, { 'cache-control': hashedCache })
      },
      { detail: { hide: true } },
    )
    .get(
      `${documentationPath}/*`,
      async ({ params }) => {
        const name = params['*']
        const [folder, picture] = [`${pictureFolder.split('/').at(-1)}/`, name.slice('images/'.length)]
        if (name.startsWith(folder)) {
          shown ??= pictures()
          const file = shown.get(picture)
          if (file === undefined) throw new Problem('route_not_found')
          return new Response(Bun.file(file), { headers: { 'cache-control': documentCache } })
        }
        const page = await manual.asset(`${name}.html`)
        if (page === null) throw new Problem('route_not_found')
        return respond(page, manualHeaders)
      },
      { detail: { hide: true } },
    )
}
