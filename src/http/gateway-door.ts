import { peerPath } from '../actors/tunnels/peer-transport.ts'
import { headers } from '../brand.ts'
import type { Problem } from '../errors.ts'
import { descriptors } from '../host/descriptors.ts'
import { type FrontDoor, frontDoor, type Handler } from '../listener/front-door.ts'
import { pathOf } from '../listener/request-target.ts'
import type { PeerDirectory } from './frame/client-address.ts'
import { beginExchange, endExchange, type HttpContext } from './frame/context.ts'
import { sentKey } from './frame/credential.ts'
import type { RouteTable } from './frame/route-table.ts'
import { unknownParameters } from './frame/unknown-parameters.ts'
import { auditUnrouted } from './plugins/access-audit.ts'
import { respondToFailure, unmatched } from './plugins/problems.ts'

/** Paths for health checks, and paths where nodes and other gateways prove their identity with signatures. */
const openPaths = /^\/(?:healthz|readyz|metrics|v1\/node-agent\/.*)$/

/** The published SDKs encode the slashes of an id that they ask for. */
const modelPath = /^\/v1(?:\/api)?\/models\/([^/]+)$/

/** The gateway's front door, as Elysia takes it. */
export interface GatewayDoor {
  readonly wrap: (next: Handler, request: Request) => Handler
  readonly adapter: FrontDoor['adapter']
}

/** True for a credential that memory knows. A look-up that starts here makes the credential known later. */
function known(find: () => unknown): boolean {
  try {
    const found = find()
    if (!(found instanceof Promise)) return found !== null
    found.catch(() => {})
  } catch {
    // The database is away, so the credential is unknown.
  }
  return false
}

function isKnown({ gateway: { access }, keyless }: HttpContext, request: Request): boolean {
  const { headers: sent, url } = request
  const path = pathOf(url)
  if (openPaths.test(path) || path.startsWith(peerPath)) return true
  const bearer = sentKey(request) ?? keyless
  const role = sent.get(headers.adminToken)
  const customerId = sent.get(headers.customerId)
  const customerToken = sent.get(headers.customerToken)
  return (
    (role !== null && known(() => access.role(role))) ||
    (bearer !== null &&
      (access.remembersKey(bearer) || known(() => access.gatewayKey(bearer)) || known(() => access.role(bearer)))) ||
    (customerId !== null && customerToken !== null && known(() => access.customer(customerId, customerToken)))
  )
}

/**
 * The gateway's front door. A refused request also has its log line and its audit event. `posts` has handlers by their
 * path. They take the POST requests of that path and save the router's own work on each request. `fault`: why this listener
 * takes a request at all or not.
 */
export function gatewayDoor(
  context: HttpContext,
  table: () => RouteTable,
  server: () => PeerDirectory | null,
  posts: ReadonlyMap<string, Handler>,
  fault: (request: Request) => Problem | null = () => null,
): GatewayDoor {
  const refuse = (request: Request, problem: Problem): Response => {
    const exchange = beginExchange(context, request, server())
    const path = pathOf(request.url)
    const template = table().match(path)?.template ?? null
    const route = template ?? unmatched
    const { response } = respondToFailure(context, problem, {
      requestId: exchange.requestId,
      route,
      sent: request.headers,
    })
    const { status } = response
    exchange.code = problem.code
    auditUnrouted(context, exchange, request, { path, template, status })
    endExchange(context, exchange, { route, method: request.method, status })
    return response
  }
  const { enter, adapter } = frontDoor({
    descriptors,
    slashedId: modelPath,
    isKnown: (request) => isKnown(context, request),
    refuse,
    fault,
    leaving: () => context.gateway.leaving(),
  })
  const wrap = (next: Handler, request: Request): Handler => {
    const own = request.method === 'POST' ? posts.get(pathOf(request.url)) : undefined
    const handler = enter(own ?? next, request)
    return request.url.includes('?') ? warning(handler, table) : handler
  }
  return { wrap, adapter }
}

/** Adds a header that names query parameters which the route does not read. */
function warning(handler: Handler, table: () => RouteTable): Handler {
  return async (request) => {
    // After the answer Bun no longer knows the query (seen).
    const { url } = request
    const response = await handler(request)
    const known = table().match(pathOf(url))?.query
    const unknown = known === undefined ? null : unknownParameters(url, known)
    if (unknown !== null) response?.headers.set('warning', unknown)
    return response
  }
}
