import { type AnyElysia, Elysia } from 'elysia'
import type { GatewayHandle } from '../actors/gateway-handle.ts'
import { idleSeconds } from '../listener/connection-clock.ts'
import { createHttpContext } from './frame/context.ts'
import { RouteTable } from './frame/route-table.ts'
import { gatewayDoor } from './gateway-door.ts'
import { problems } from './plugins/problems.ts'
import { ownPartRoutes } from './routes/own-parts.ts'
import { peerRoutes } from './routes/peer.ts'

/** Peers send what was within the limits of their own routes, and each route here has its own. */
const bunBodyBytesMax = Number.MAX_SAFE_INTEGER

/** What one of several processes of a gateway answers to the others, at a door of its own (§33). */
export function createPeerApp(gateway: GatewayHandle): AnyElysia {
  const context = createHttpContext(gateway, () => app.server)
  let mounted: RouteTable | null = null
  const table = (): RouteTable => {
    mounted ??= new RouteTable(app)
    return mounted
  }
  const { wrap, adapter } = gatewayDoor(context, table, () => app.server, new Map())
  const app: AnyElysia = new Elysia({
    adapter,
    serve: { maxRequestBodySize: bunBodyBytesMax, idleTimeout: idleSeconds, development: false },
    handler: { standardHostname: false },
  })
    // Elysia's type describes the result of the handler, but it means the handler.
    .wrap(wrap as never)
    .use(problems(context, table))
    .use(peerRoutes(context))
    .use(ownPartRoutes(context))
  return app
}
