import { headers } from '../../brand.ts'
import { responseNonceHeader } from '../../protocol/sealed/ehbp.ts'

/** Every web page may read the public GETs of the specification, and nothing else (§1). */
export const corsHeaders = {
  'access-control-allow-origin': '*',
  'access-control-expose-headers': `Link, ${headers.requestId}, retry-after`,
} as const

const openPaths: readonly string[] = [
  '/v1/api',
  '/v1/api/models',
  '/v1/api/models/*',
  '/v1/models',
  '/v1/models/*',
  '/v1/api/pricing',
  '/v1/public/settlement',
]
/** No header changes the answer of such a GET. `*` does not allow credentials. */
const preflight = {
  ...corsHeaders,
  'access-control-allow-methods': 'GET, HEAD',
  'access-control-allow-headers': '*',
  'access-control-max-age': '600',
} as const

/** Headers of the answer to `OPTIONS`. */
export function preflightHeaders(template: string, marketplaceSegment: string): Readonly<Record<string, string>> {
  return openPaths.includes(template) || template === `/${marketplaceSegment}/models` ? preflight : {}
}

/** The headers that a page's preflight may request: a bounded list of header names. */
const headerNames = /^[A-Za-z0-9-]+(?: ?, ?[A-Za-z0-9-]+){0,63}$/

/**
 * For the pages that the operator has named (§28); null for others, and for all where none is named. The origin is
 * repeated, not `*`: a page of another origin learns nothing. No cookie is ever read, so that none is allowed.
 */
export function namedOrigin(origins: readonly string[], request: Request): Record<string, string> | null {
  if (origins.length === 0) return null
  const origin = request.headers.get('origin')
  if (origin === null || !origins.includes(origin)) return null
  return {
    'access-control-allow-origin': origin,
    'access-control-expose-headers': `${corsHeaders['access-control-expose-headers']}, request-id, ratelimit, ${responseNonceHeader}`,
    vary: 'Origin',
  }
}

/** Of the answer to `OPTIONS` on an inference path. */
export function namedPreflight(origins: readonly string[], request: Request): Record<string, string> {
  const allowed = namedOrigin(origins, request)
  if (allowed === null) return {}
  const wanted = request.headers.get('access-control-request-headers') ?? ''
  return {
    ...allowed,
    'access-control-allow-methods': 'GET, POST',
    'access-control-max-age': '600',
    ...(headerNames.test(wanted) ? { 'access-control-allow-headers': wanted } : {}),
  }
}
