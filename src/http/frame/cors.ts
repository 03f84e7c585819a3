import { headers } from '../../brand.ts'

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
