import { headers } from '../../brand.ts'

/** The public GETs of the specification are open to every web page, the rest is not (§1). */
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
/** Nothing that is sent changes what such a GET answers; a credential is not among what `*` allows. */
const preflight = {
  ...corsHeaders,
  'access-control-allow-methods': 'GET, HEAD',
  'access-control-allow-headers': '*',
  'access-control-max-age': '600',
} as const

/** Of the answer to `OPTIONS`. */
export function preflightHeaders(template: string, marketplaceSegment: string): Readonly<Record<string, string>> {
  return openPaths.includes(template) || template === `/${marketplaceSegment}/models` ? preflight : {}
}
