import { headers, tokenPrefixes } from '../../brand.ts'
import {
  headerName,
  missingCredential,
  type NeededCredential,
  sendsAny,
  wrongCredential,
} from '../../credential-kinds.ts'
import { Problem, type ProblemCode } from '../../errors.ts'
import { sealedNodesPath } from '../../protocol/wire/inference/sealed.ts'
import { adminPrefix } from './route-table.ts'

const bearerPattern = /^bearer +(\S+)$/i

/** The key of an inference client: a bearer token, or the header of Anthropic's clients. null without one. */
export function sentKey({ headers: sent }: Request): string | null {
  const authorization = sent.get('authorization')
  return authorization === null ? sent.get('x-api-key') : (bearerPattern.exec(authorization)?.[1] ?? '')
}

const roles = ['admin', 'operator', 'viewer'] as const
const [adminToken, approverToken, customerId, customerToken] = [
  headers.adminToken,
  headers.approverToken,
  headers.customerId,
  headers.customerToken,
].map(headerName)
const gatewayKey = `a gateway key (${tokenPrefixes.gateway}…)`

const needs = {
  inference: {
    kinds: ['gateway'],
    carriers: ['authorization', 'x-api-key'],
    words: `${gatewayKey} as a bearer token in Authorization, or in x-api-key`,
  },
  /** An operator acts for a customer. */
  customerBeside: {
    kinds: ['gateway'],
    carriers: ['authorization', 'x-api-key'],
    words: `${customerId} and ${customerToken} beside it, or ${gatewayKey} alone`,
  },
  admin: { kinds: [...roles, 'session'], carriers: [headers.adminToken], words: `an admin token in ${adminToken}` },
  approver: {
    kinds: ['admin'],
    carriers: [headers.approverToken, headers.adminToken],
    words: `the admin token of a second person in ${approverToken}`,
  },
  metrics: {
    kinds: roles,
    carriers: [headers.adminToken, 'authorization'],
    words: `a role token in ${adminToken}, or as a bearer token in Authorization`,
  },
  customer: {
    kinds: ['customer'],
    carriers: [headers.customerToken],
    words: `${customerId} and ${customerToken}`,
  },
  nodeQuery: {
    kinds: [],
    carriers: [],
    words: "the node's signature in the query: signed_at, nonce and signature_ed25519",
  },
  enroll: {
    kinds: ['enroll'],
    carriers: ['authorization'],
    words: `an enrolment token (${tokenPrefixes.enroll}…) as a bearer token in Authorization`,
  },
  nodeHeaders: {
    kinds: [],
    carriers: [headers.nodeSignature],
    words: `the node's signature in ${headerName(headers.nodeSignature)} and the headers beside it`,
  },
} as const satisfies Record<string, NeededCredential>

export const agentFileRoute = '/v1/node-agent/agent.mjs'
export const bunFileRoute = '/v1/node-agent/bun'
/** Its token is in the body, and the body's check reports a missing one. */
const enrollRoute = '/v1/node-agent/enroll'
/** Refusals that may come of another kind of credential. */
const refusals: ReadonlySet<ProblemCode> = new Set([
  'missing_credentials',
  'invalid_api_key',
  'invalid_credentials',
  'tunnel_auth_failed',
  'enrollment_token_invalid',
])

/** The credential that a route needs, by its template; null if none of these. `speaks`: it is a route of inference. */
function neededBy(route: string, speaks: boolean, param: string | null): NeededCredential | null {
  if (param === `header.${headers.approverToken}`) return needs.approver
  if (route.startsWith(adminPrefix)) return needs.admin
  if (route === '/metrics') return needs.metrics
  if (route === bunFileRoute) return needs.enroll
  if (route === enrollRoute) return null
  if (route.startsWith('/v1/node-agent/')) return needs.nodeHeaders
  if (route.startsWith('/v1/nodes/')) return needs.nodeQuery
  if (/^\/v1\/(?:billing\/|api\/private-inference\/)/.test(route)) return needs.customer
  if (route.startsWith(sealedNodesPath)) return needs.inference
  if (!speaks) return null
  return param === `header.${headers.customerId}` || param === `header.${headers.customerToken}`
    ? needs.customerBeside
    : needs.inference
}

/**
 * A refusal that names the kind of credential that was sent and the kind that the route needs. Routes give only the
 * code; this function finds the kind and the header for all of them.
 */
export function withCredentialKind(problem: Problem, sent: Headers, route: string, speaks: boolean): Problem {
  const { code, options } = problem
  if (!refusals.has(code)) return problem
  const needed = neededBy(route, speaks, options.param ?? null)
  // An operator acts for a customer: the bearer is right, and the customer's token is not.
  if (needed === null || (speaks && code === 'invalid_credentials')) return problem
  const missing = options.detail === undefined && (code === 'missing_credentials' || !sendsAny(sent))
  const detail = wrongCredential(sent, needed) ?? (missing ? missingCredential(sent, needed) : null)
  return detail === null ? problem : new Problem(code, { ...options, detail })
}
