import { Elysia } from 'elysia'
import { basePaths, operations, pathsOf } from '../../actors/operations/registry.ts'
import { tokenEnvelope } from '../../actors/operations/token-paths.ts'
import { sealedEnvelope } from '../../actors/sealed/sealed-operation.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { pathOf } from '../../listener/request-target.ts'
import {
  adminChallenge,
  bearerChallenge,
  type Envelope,
  envelopeResponse,
  problemResponse,
} from '../../protocol/json/problem-response.ts'
import { sealedNodesPath } from '../../protocol/wire/inference/sealed.ts'
import { beginExchange, endExchange, type HttpContext, type HttpExchange } from '../frame/context.ts'
import { namedPreflight, preflightHeaders } from '../frame/cors.ts'
import { withCredentialKind } from '../frame/credential.ts'
import { clientClosedStatus, problemOf } from '../frame/failure.ts'
import { missedInference } from '../frame/missed-inference.ts'
import { adminPrefix, type RouteTable } from '../frame/route-table.ts'
import { auditUnrouted } from './access-audit.ts'

export const modelsPath = '/models'
/** Stands for the route of a request that has none. */
export const unmatched = 'unmatched'

const modelPaths: readonly string[] = basePaths.flatMap((base) => [base + modelsPath, `${base}${modelsPath}/*`])

/** Asked only where something failed. null: RFC 9457. */
function envelopeOf(route: string): Envelope | null {
  if (modelPaths.includes(route)) return 'openai'
  const sealed = sealedEnvelope(route)
  if (sealed !== null) return sealed
  return tokenEnvelope(route) ?? operations.find((operation) => pathsOf(operation).includes(route))?.envelope ?? null
}

/** What a page of a named origin may call (§28). */
const isForPages = ({ speaks }: HttpContext, template: string): boolean =>
  (speaks ?? envelopeOf(template)) !== null || template.startsWith(sealedNodesPath)

interface FailurePlace {
  readonly requestId: string
  readonly route: string
  /** The headers of the request. */
  readonly sent: Headers
  readonly envelope?: Envelope
}

/** Turns an error on a route into a response with the route's format and the refusal's status. */
export function respondToFailure(
  { base, gateway, speaks }: HttpContext,
  error: unknown,
  place: FailurePlace,
): { readonly response: Response; readonly problem: Problem | null } {
  const found = problemOf(error, gateway.log, place)
  if (found === null) {
    return { problem: found, response: new Response(null, { status: clientClosedStatus, headers: base }) }
  }
  const own = envelopeOf(place.route) ?? speaks
  const problem = withCredentialKind(found, place.sent, place.route, own !== null)
  const envelope = place.envelope ?? own
  const helpBase = gateway.baseUrl()
  if (envelope !== null) {
    return { problem, response: envelopeResponse(envelope, problem, place.requestId, base, helpBase) }
  }
  const challenge = place.route.startsWith(adminPrefix) ? adminChallenge : bearerChallenge
  const typeBase = gateway.config.SVC_PROBLEM_BASE_URL
  return { problem, response: problemResponse(problem, place.requestId, base, { typeBase, challenge, helpBase }) }
}

/** Anthropic's clients say who they are, and unwrap their own envelope alone. */
const clientEnvelope = ({ headers: sent }: Request): Envelope | null =>
  sent.has('anthropic-version') ? 'anthropic' : null

/** No handler for path and method: 404, 405 with `Allow`, or the answer to `OPTIONS`. */
function unhandled(context: HttpContext, table: RouteTable, request: Request, exchange: HttpExchange) {
  const found = table.match(pathOf(request.url))
  const route = found?.template ?? unmatched
  const envelope = clientEnvelope(request)
  const place = {
    requestId: exchange.requestId,
    route,
    sent: request.headers,
    ...(envelope === null ? {} : { envelope }),
  }
  if (found === null) {
    const missed = missedInference(pathOf(request.url), context.gateway.baseUrl())
    if (missed === null) return { route, ...respondToFailure(context, new Problem('route_not_found'), place) }
    return { route, ...respondToFailure(context, missed, { envelope: 'openai', ...place }) }
  }
  const allow = found.allow.join(', ')
  if (request.method === 'OPTIONS') {
    const { config } = context.gateway
    const response = new Response(null, {
      status: 204,
      headers: {
        ...context.base,
        ...preflightHeaders(found.template, config.SVC_MARKETPLACE_SEGMENT),
        ...(isForPages(context, found.template) ? namedPreflight(config.SVC_CORS_ORIGINS, request) : {}),
        allow,
        'cache-control': 'no-store',
        [headers.requestId]: exchange.requestId,
      },
    })
    return { route, response, problem: null }
  }
  return { route, ...respondToFailure(context, new Problem('method_not_allowed', { headers: { allow } }), place) }
}

/** The only place that turns errors into responses. It adds no work to a request that succeeds. */
export const problems = (context: HttpContext, table: () => RouteTable) =>
  new Elysia({ name: 'problems' }).onError({ as: 'global' }, (failed) => {
    const { code, error, request, server, set, route } = failed
    const begun = (failed as { exchange?: HttpExchange }).exchange
    const exchange = begun ?? beginExchange(context, request, server)
    if (code === 'NOT_FOUND') {
      const path = pathOf(request.url)
      const outcome = unhandled(context, table(), request, exchange)
      const { status } = outcome.response
      exchange.code = outcome.problem?.code ?? null
      const template = outcome.route === unmatched ? null : outcome.route
      auditUnrouted(context, exchange, request, { path, template, status })
      // Without a route no hook of a route writes the log line.
      endExchange(context, exchange, { route: outcome.route, method: request.method, status })
      return outcome.response
    }
    const envelope = clientEnvelope(request)
    const { response, problem } = respondToFailure(context, code === 'PARSE' ? new Problem('invalid_json') : error, {
      requestId: exchange.requestId,
      route,
      sent: request.headers,
      ...(envelope === null ? {} : { envelope }),
    })
    exchange.code = problem?.code ?? null
    set.status = response.status
    return response
  })
