import { Elysia } from 'elysia'
import type { Caller } from '../../actors/accounts/access.ts'
import type { AccessEvent } from '../../actors/audit/audit-log.ts'
import { headers, tokenPrefixes } from '../../brand.ts'
import type { HttpContext, HttpExchange } from '../frame/context.ts'
import { adminPrefix } from '../frame/route-table.ts'
import { requestId } from './request-id.ts'

/** Stands for an admin path without a route, because the path itself could contain anything. */
const unmatchedTemplate = `${adminPrefix}*`
const queryKeysMax = 20
/** A name that a caller sends is stored only if it looks like a name and not like a token. */
const nameForm = /^[A-Za-z0-9_.-]{1,64}$/
const tokenForm = new RegExp(Object.values(tokenPrefixes).join('|'))
const otherName = 'other'
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const otherMethod = 'OTHER'

/** Names of the query's parameters, sorted, each once, at most 20; no value (§16). */
export function queryKeys(url: string): readonly string[] {
  const cut = url.indexOf('?')
  if (cut === -1) return []
  const shown = [...new URLSearchParams(url.slice(cut + 1)).keys()].map((name) =>
    nameForm.test(name) && !tokenForm.test(name) ? name : otherName,
  )
  return [...new Set(shown)].sort().slice(0, queryKeysMax)
}

export function outcomeOf(status: number): AccessEvent['outcome'] {
  if (status < 400) return 'success'
  if (status === 401 || status === 403) return 'denied'
  return status < 500 ? 'failed' : 'error'
}

/** Parts of a request that are read before its answer, because afterwards Bun no longer knows the query (seen). */
interface RequestFacts {
  readonly method: string
  readonly queryKeys: readonly string[]
  readonly userAgent: string | null
}

const askedOf = ({ method, url, headers: sent }: Request): RequestFacts => ({
  method: methods.has(method) ? method : otherMethod,
  queryKeys: queryKeys(url),
  userAgent: sent.get('user-agent'),
})

interface Answered {
  /** null: no route has this path. */
  readonly template: string | null
  readonly status: number
}

/** Makes the event of a call. Only these fields are stored (§16). */
function accessEvent(
  { gateway }: HttpContext,
  exchange: HttpExchange,
  asked: RequestFacts,
  { template, status }: Answered,
): AccessEvent {
  const { audit } = gateway
  return {
    // Without a known token the event has the lowest role, because the specification's enumeration needs a role.
    actorType: exchange.role === null ? 'unauthenticated' : 'admin_token',
    actorRole: exchange.role ?? 'viewer',
    actorHashPrefix: exchange.role === null ? null : exchange.actorHash,
    method: asked.method,
    pathTemplate: template ?? unmatchedTemplate,
    queryKeys: asked.queryKeys,
    statusCode: status,
    outcome: outcomeOf(status),
    errorCode: exchange.code,
    userAgentHashPrefix: audit.pseudonym('user_agent', asked.userAgent),
    ipHashPrefix: audit.pseudonym('ip', exchange.address),
    requestId: exchange.requestId,
  }
}

/** Writes the event of a call that stands outside of `/v1/admin`. */
export function auditCall(context: HttpContext, exchange: HttpExchange, request: Request, answered: Answered): void {
  context.gateway.audit.access(accessEvent(context, exchange, askedOf(request), answered))
}

/** Writes an event for every call of a route that uses it, after the answer. */
export const accessAudit = (context: HttpContext) =>
  new Elysia({ name: 'access-audit' })
    .use(requestId(context))
    .derive({ as: 'scoped' }, ({ request }) => ({ asked: askedOf(request) }))
    .onAfterResponse({ as: 'scoped' }, (answered) => {
      const { asked, route, set } = answered
      // Scoped twice, it loses its type on the way, not its value.
      const { exchange } = answered as unknown as { exchange: HttpExchange }
      const status = typeof set.status === 'number' ? set.status : 200
      context.gateway.audit.access(accessEvent(context, exchange, asked, { template: route, status }))
    })

/** Writes the event of a request without a route: an unknown path below `/v1/admin/`, or a wrong method. */
export function auditUnrouted(
  context: HttpContext,
  exchange: HttpExchange,
  request: Request,
  answered: Answered & { readonly path: string },
): void {
  if (!`${answered.path}/`.startsWith(adminPrefix)) return
  const token = request.headers.get(headers.adminToken)
  const caller = token === null ? null : knownCaller(context, token)
  const role = caller?.role ?? null
  const actorHash = caller?.actorHash ?? context.gateway.audit.pseudonym('actor', token)
  context.gateway.audit.access(accessEvent(context, { ...exchange, role, actorHash }, askedOf(request), answered))
}

/** Refuses nothing. If only the database could tell, the caller is unknown. */
const knownCaller = ({ gateway }: HttpContext, token: string): Caller | null => gateway.callers.known(token)
