import { Elysia } from 'elysia'
import type { GatewayHandle } from '../actors/gateway-handle.ts'
import { operations } from '../actors/operations/registry.ts'
import type { WarmDoor } from '../actors/warm-up/warm-up.ts'
import type { Handler } from '../listener/front-door.ts'
import { createHttpContext } from './frame/context.ts'
import { RouteTable } from './frame/route-table.ts'
import { gatewayDoor } from './gateway-door.ts'
import { inferenceDoors } from './inference/inference-door.ts'

const nothing: Handler = () => new Response(null, { status: 404 })

/** What `createApp` puts before the router, on a listener of its own: the way of an inference request is the same. */
export function openWarmDoor(gateway: GatewayHandle, key: string): WarmDoor {
  const context = createHttpContext(gateway, () => server)
  const posts = new Map(
    [...inferenceDoors(context, operations)].map(([path, door]) => [
      path,
      (request: Request) => door.handle(request, server),
    ]),
  )
  const { wrap } = gatewayDoor(
    context,
    () => new RouteTable(new Elysia()),
    () => server,
    posts,
  )
  const server = Bun.serve({
    hostname: '127.0.0.1',
    port: 0,
    development: false,
    fetch: (request) =>
      request.headers.get('authorization') === `Bearer ${key}` ? wrap(nothing, request)(request) : nothing(request),
  })
  return { url: `http://127.0.0.1:${server.port}`, stop: () => server.stop(true) }
}
