import { Elysia } from 'elysia'
import type { Envelope } from '../../actors/operations/operation.ts'
import { operations, routeOf } from '../../actors/operations/registry.ts'
import { headers } from '../../brand.ts'
import { Problem } from '../../errors.ts'
import { pathOf } from '../../listener/request-target.ts'
import {
  adminChallenge,
  bearerChallenge,
  openAiResponse,
  problemResponse,
} from '../../protocol/json/problem-response.ts'
import { beginExchange, endExchange, type HttpContext, type HttpExchange } from '../frame/context.ts'
import { preflightHeaders } from '../frame/cors.ts'
import { clientClosedStatus, problemOf } from '../frame/failure.ts'
import { adminPrefix, type RouteTable } from '../frame/route-table.ts'
import { auditUnrouted } from './access-audit.ts'

export const modelsRoute = '/v1/api/models'
/** Stands for the route where there is none. */
export const unmatched = 'unmatched'

const envelopes: ReadonlyMap<string, Envelope> = new Map([
  [modelsRoute, 'openai'],
  ...operations.map((operation) => [routeOf(operation), operation.envelope] as const),
])

/** The response to anything that was thrown on a route: the envelope is the route's, the status the refusal's. */
export function respondToFailure(
  { base, gateway }: HttpContext,
  error: unknown,
  place: { readonly requestId: string; readonly route: string },
): { readonly response: Response; readonly problem: Problem | null } {
  const problem = problemOf(error, gateway.log, place)
  if (problem === null) {
    return { problem, response: new Response(null, { status: clientClosedStatus, headers: base }) }
  }
  if (envelopes.get(place.route) === 'openai')
    return { problem, response: openAiResponse(problem, place.requestId, base) }
  const challenge = place.route.startsWith(adminPrefix) ? adminChallenge : bearerChallenge
  const typeBase = gateway.config.SVC_PROBLEM_BASE_URL
  return { problem, response: problemResponse(problem, place.requestId, base, { typeBase, challenge }) }
}

/** No handler for path and method: 404, 405 with `Allow`, or the answer to `OPTIONS`. */
function unhandled(context: HttpContext, table: RouteTable, request: Request, exchange: HttpExchange) {
  const found = table.match(pathOf(request.url))
  const route = found?.template ?? unmatched
  const place = { requestId: exchange.requestId, route }
  if (found === null) return { route, ...respondToFailure(context, new Problem('route_not_found'), place) }
  const allow = found.allow.join(', ')
  if (request.method === 'OPTIONS') {
    const response = new Response(null, {
      status: 204,
      headers: {
        ...context.base,
        ...preflightHeaders(found.template, context.gateway.config.SVC_MARKETPLACE_SEGMENT),
        allow,
        'cache-control': 'no-store',
        [headers.requestId]: exchange.requestId,
      },
    })
    return { route, response, problem: null }
  }
  return { route, ...respondToFailure(context, new Problem('method_not_allowed', { headers: { allow } }), place) }
}

/** The one place that turns what was thrown into a response. Costs a request that succeeds nothing. */
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
      // No route, so no hook of a route writes the line.
      endExchange(context, exchange, { route: outcome.route, method: request.method, status })
      return outcome.response
    }
    const { response, problem } = respondToFailure(context, code === 'PARSE' ? new Problem('invalid_json') : error, {
      requestId: exchange.requestId,
      route,
    })
    exchange.code = problem?.code ?? null
    set.status = response.status
    return response
  })
