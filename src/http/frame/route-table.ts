import type { AnyElysia } from 'elysia'
import { brand } from '../../brand.ts'
import { type AdminRole, type AdminRoute, adminRouteFaults } from '../../machines/rules/admin-route.ts'
import { describedQuery } from './query.ts'

/** Our own keys in a route's `detail`, the first for its row of the approval policy. The OpenAPI document translates them. */
export const actionKey = `x-${brand}-action`
export const csvKey = `x-${brand}-csv`
export const mediaTypeKey = `x-${brand}-media-type`
export const etagKey = `x-${brand}-etag`

export interface RouteRow {
  readonly method: string
  /** The template: `/v1/admin/customers/:customer_id`. */
  readonly path: string
  /** The action that an admin route names. null for other routes. */
  readonly action: string | null
  /** The least role of an admin route; null elsewhere. */
  readonly role: AdminRole | null
  /** True for a page, and for another path of a route that OpenAPI already shows. */
  readonly hidden: boolean
  /** The query parameters that the route reads. */
  readonly query: readonly string[]
}

/** A route's description. Elysia's own schemas would change the values that they check (see `readsBy`, `asks`). */
export function describe(text: {
  readonly summary: string
  readonly description?: string
  readonly tags: readonly string[]
  /** The route answers 204. */
  readonly empty?: boolean
  /** The route can answer with a table. The text describes its columns. */
  readonly csv?: string | undefined
  /** The media type of a whole answer that is not `application/json`. */
  readonly mediaType?: string
  /** Its answer names the row by an ETag, or a change of it may ask for one; `row or none`: the row may be made by it. */
  readonly etag?: 'row' | 'row or none'
}): Record<string, unknown> {
  const { empty, csv, mediaType, etag, tags, ...rest } = text
  return {
    ...rest,
    tags: [...tags],
    ...(empty === true ? { responses: { 204: { description: 'Done' } } } : {}),
    ...(csv === undefined ? {} : { [csvKey]: csv }),
    ...(mediaType === undefined ? {} : { [mediaTypeKey]: mediaType }),
    ...(etag === undefined ? {} : { [etagKey]: etag }),
  }
}

/** Placeholder for the configured segment (SVC_MARKETPLACE_SEGMENT). */
const marketplacePath = '/:segment/models'
/** Rows 2 to 12 of the specification's table, which are hosted and not administrative (§9). */
const hostedRows: readonly (readonly [string, string])[] = [
  ['POST', '/v1/api/chat/completions'],
  ['GET', '/v1/api/models'],
  ['GET', '/v1/api'],
  ['GET', '/v1/api/pricing'],
  ['POST', '/v1/api/private-inference/jobs'],
  ['GET', '/v1/api/private-inference/jobs/:job_id'],
  ['GET', '/v1/nodes/:node_id/payouts'],
  ['GET', '/v1/public/settlement'],
  ['GET', marketplacePath],
  ['GET', '/v1/billing/account'],
  ['GET', '/v1/billing/usage'],
]

/** `/jobs/:job_id` → `/jobs/{job_id}`. */
export const bracedPath = (template: string) => template.replaceAll(/:([A-Za-z_]+)/g, '{$1}')

export const adminPrefix = '/v1/admin/'

/** Throws if an admin route has no row in the table of roles and approvals. */
export function checkAdminRoutes(app: AnyElysia, table: Readonly<Record<string, AdminRoute>>): void {
  const mounted = new RouteTable(app).rows.filter(({ path, action }) => action !== null || path.startsWith(adminPrefix))
  const faults = adminRouteFaults(mounted, table)
  if (faults.length > 0) throw new Error(`admin routes: ${faults.join('; ')}`)
}

export interface RouteMatch {
  readonly template: string
  readonly allow: readonly string[]
  readonly query: ReadonlySet<string>
}

/** All mounted routes. The endpoint index, 405 answers, OpenAPI and the role tests read it. */
export class RouteTable {
  readonly rows: readonly RouteRow[]
  readonly #byPath: readonly {
    readonly pattern: RegExp
    readonly template: string
    readonly methods: Set<string>
    readonly query: Set<string>
  }[]

  constructor(app: AnyElysia) {
    const details = app.routes.map(({ method, path, hooks }) => {
      const { detail = {} } = hooks as { detail?: Record<string, unknown> }
      const action = (detail[actionKey] ?? null) as AdminRoute | null
      const query = Object.keys(describedQuery(hooks))
      return {
        method,
        path,
        action: action?.action ?? null,
        role: action?.role ?? null,
        query,
        hidden: detail.hide === true,
      }
    })
    this.rows = details
    // A path that stands there as it is comes before one whose parameter it could be, as the router has it.
    const isOpen = (path: string) => Number(/[:*]/.test(path))
    const templates = [...new Set(details.map(({ path }) => path))].toSorted((a, b) => isOpen(a) - isOpen(b))
    this.#byPath = templates.map((template) => ({
      template,
      pattern: new RegExp(
        `^${template
          .replaceAll('.', '\\.')
          .replaceAll('*', '.+')
          .replaceAll(/:[A-Za-z_]+/g, '[^/]+')}/?$`,
      ),
      methods: new Set(details.filter(({ path }) => path === template).map(({ method }) => method)),
      query: new Set(details.filter(({ path }) => path === template).flatMap(({ query }) => query)),
    }))
  }

  /** Finds the template of a path, its methods and its query parameters. Returns null for an unknown path. */
  match(path: string): RouteMatch | null {
    const found = this.#byPath.find(({ pattern }) => pattern.test(path))
    if (found === undefined) return null
    const methods = [...found.methods]
    const allow = [...methods, ...(found.methods.has('GET') ? ['HEAD'] : []), 'OPTIONS']
    return { template: found.template, allow, query: found.query }
  }

  /** `"<METHOD> <path>"` of the mounted public rows, in the specification's order. */
  hosted(marketplaceSegment: string): string[] {
    return hostedRows
      .map(([method, path]) => [method, path === marketplacePath ? `/${marketplaceSegment}/models` : path] as const)
      .filter(([method, path]) => this.rows.some((row) => row.method === method && row.path === path))
      .map(([method, path]) => `${method} ${bracedPath(path)}`)
  }
}
