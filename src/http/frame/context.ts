import type { Role } from '../../actors/accounts/access.ts'
import type { GatewayHandle } from '../../actors/gateway-handle.ts'
import type { ProblemCode } from '../../errors.ts'
import { newId, type RequestId } from '../../ids.ts'
import { ConnectionClock, type TimedServer } from '../../listener/connection-clock.ts'
import type { AdminRoute } from '../../machines/rules/admin-route.ts'
import type { JsonTypes } from '../../protocol/json/json-body.ts'
import { baseHeaders, type Envelope } from '../../protocol/json/problem-response.ts'
import { createClientAddress, type PeerDirectory } from './client-address.ts'
import { clientRequestId, logRequest } from './request-log.ts'

/** The facts of one request on a route other than chat, until it is logged. */
export interface HttpExchange {
  readonly requestId: RequestId
  readonly startedMs: number
  readonly clientRequestId: string | null
  readonly address: string
  code: ProblemCode | null
  keyId: string | null
  role: Role | null
  /** The caller has proved to be a customer or a node. */
  proved: boolean
  /** The action of an admin route. */
  action: AdminRoute | null
  /** The keyed hash of a known role token. */
  actorHash: string | null
}

/** What a route has of one request, as Elysia passes it. */
export interface RouteCall {
  readonly exchange: HttpExchange
  readonly request: Request
  /** Headers of the answer. */
  readonly set: { readonly headers: Record<string, string | number> }
}

/** What plugins and routes share. It is made once per application. */
export interface HttpContext {
  readonly gateway: GatewayHandle
  readonly base: Readonly<Record<string, string>>
  readonly clientAddress: (request: Request, server: PeerDirectory | null) => string
  readonly connections: ConnectionClock
  /** The error format where the route has none of its own; null: RFC 9457. */
  readonly speaks: Envelope | null
  /** The gateway key of callers without a credential; null: they are refused. */
  readonly keyless: string | null
  readonly jsonTypes: JsonTypes
  /** Gives another name to try where the one that a caller sent is unknown; null: there is no other. */
  readonly otherName: ((model: string) => string | null) | null
}

/** The options that a separate listener changes. */
export type ContextOptions = Partial<Pick<HttpContext, 'speaks' | 'keyless' | 'jsonTypes' | 'otherName'>>

/** `server`: null until it listens. */
export function createHttpContext(
  gateway: GatewayHandle,
  server: () => TimedServer | null,
  { speaks = null, keyless = null, jsonTypes = 'json', otherName = null }: ContextOptions = {},
): HttpContext {
  return {
    gateway,
    base: baseHeaders(gateway.config),
    clientAddress: createClientAddress(gateway.config.SVC_TRUSTED_PROXIES),
    connections: new ConnectionClock(server),
    speaks,
    keyless,
    jsonTypes,
    otherName,
  }
}

export function beginExchange(context: HttpContext, request: Request, server: PeerDirectory | null): HttpExchange {
  return {
    requestId: newId('req'),
    startedMs: performance.now(),
    clientRequestId: clientRequestId(request),
    address: context.clientAddress(request, server),
    code: null,
    keyId: null,
    role: null,
    proved: false,
    action: null,
    actorHash: null,
  }
}

/** A caller may send any method, and only these become labels. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
const otherMethod = 'other'

/** The log line and the metrics of a finished request. */
export function endExchange(
  { gateway }: HttpContext,
  exchange: HttpExchange,
  { route, method: sent, status }: { readonly route: string; readonly method: string; readonly status: number },
): void {
  const latencyMs = performance.now() - exchange.startedMs
  const method = methods.has(sent) ? sent : otherMethod
  gateway.metrics.http(route, method, status, latencyMs / 1_000)
  logRequest(gateway.log, {
    route,
    method,
    status,
    latencyMs,
    requestId: exchange.requestId,
    code: exchange.code,
    keyId: exchange.keyId,
    role: exchange.role,
    addressHash: gateway.hashAddress(exchange.address),
    clientRequestId: exchange.clientRequestId,
    stranger: exchange.keyId === null && exchange.role === null && !exchange.proved,
  })
}
