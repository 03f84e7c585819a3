import { Elysia } from 'elysia'
import { product } from '../../brand.ts'
import { ApiCatalog, EndpointIndex } from '../../protocol/wire/admin/report.ts'
import type { HttpContext, RouteCall } from '../frame/context.ts'
import { describe, type RouteTable } from '../frame/route-table.ts'
import { publicReads } from '../plugins/rate-limit.ts'
import { consolePath } from './console.ts'

export const openApiPath = '/openapi.json'
export const documentationPath = '/docs'
const linksetType = 'application/linkset+json'
const indexCache = 'public, max-age=300'

const urls = ({ gateway }: HttpContext) => {
  const base = gateway.baseUrl()
  return { base, openapi: base + openApiPath, documentation: base + documentationPath }
}

/** Endpoint 4. Programs can read its links, too (RFC 8631). */
function endpointIndex(context: HttpContext, table: () => RouteTable, set: RouteCall['set']): EndpointIndex {
  const { base, openapi, documentation } = urls(context)
  set.headers['cache-control'] = indexCache
  set.headers.link = `<${openapi}>; rel="service-desc"; type="application/json", <${documentation}>; rel="service-doc"`
  return {
    name: product,
    base_url: base,
    endpoints: table().hosted(context.gateway.config.SVC_MARKETPLACE_SEGMENT),
    openapi_url: openapi,
    documentation_url: documentation,
  }
}

export const endpointIndexRoutes = (context: HttpContext, table: () => RouteTable) =>
  new Elysia().use(publicReads(context, 'any')).get('/v1/api', ({ set }) => endpointIndex(context, table, set), {
    response: { 200: EndpointIndex },
    detail: { ...describe({ summary: 'Endpoint index', tags: ['Service'] }), security: [] },
  })

const wantsPage = (request: Request) => request.headers.get('accept')?.includes('text/html') === true

/** A person who types the address alone belongs in the console; a program gets the index (§28). */
export const rootRoutes = (context: HttpContext, table: () => RouteTable) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/',
    ({ request, redirect, set }) => {
      if (wantsPage(request)) return redirect(consolePath)
      set.headers.vary = 'Accept'
      return endpointIndex(context, table, set)
    },
    { detail: { ...describe({ summary: 'Console or index', tags: ['Extensions'] }), hide: true } },
  )

/** The same links as a linkset (RFC 9727). */
export const apiCatalogRoutes = (context: HttpContext) =>
  new Elysia().use(publicReads(context, 'own')).get(
    '/.well-known/api-catalog',
    ({ set }) => {
      const { base, openapi, documentation } = urls(context)
      set.headers['cache-control'] = indexCache
      set.headers['content-type'] = linksetType
      return {
        linkset: [
          {
            anchor: `${base}/v1/api`,
            'service-desc': [{ href: openapi, type: 'application/json' }],
            'service-doc': [{ href: documentation, type: 'text/html' }],
            status: [{ href: `${base}/healthz`, type: 'application/json' }],
          },
        ],
      }
    },
    {
      response: { 200: ApiCatalog },
      detail: {
        ...describe({ summary: 'API catalogue (RFC 9727)', tags: ['Extensions'], mediaType: linksetType }),
        security: [],
      },
    },
  )
