import { Elysia } from 'elysia'
import type { GatewayHandle } from '../actors/gateway.ts'
import { createHttpContext } from './exchange.ts'
import { problems } from './plugins/problems.ts'
import { RouteTable } from './route-table.ts'
import { customerRoutes } from './routes/admin/customers.ts'
import { explainRoutes } from './routes/admin/explain.ts'
import { keyRoutes } from './routes/admin/keys.ts'
import { catalogueRoutes } from './routes/admin/models.ts'
import { nodeCommandRoutes, nodeRoutes } from './routes/admin/nodes.ts'
import { endpointIndexRoutes } from './routes/endpoint-index.ts'
import { healthRoutes } from './routes/health.ts'
import { modelRoutes } from './routes/models.ts'

/**
 * Bun answers a larger body with an empty 413 before any hook runs, so its limit is out of reach and each route sets its
 * own (see `readJsonText`), with the error body the caller expects.
 */
const bunBodyBytesMax = Number.MAX_SAFE_INTEGER
/** A connection that says nothing for so long is closed; chat lifts this for its own requests. */
const idleTimeoutSeconds = 30

/** The HTTP interface over a running gateway; the caller listens. */
export function createApp(gateway: GatewayHandle) {
  const context = createHttpContext(gateway)
  let mounted: RouteTable | null = null
  const table = (): RouteTable => {
    mounted ??= new RouteTable(app)
    return mounted
  }
  const app = new Elysia({
    serve: { maxRequestBodySize: bunBodyBytesMax, idleTimeout: idleTimeoutSeconds, development: false },
  })
    .use(problems(context, table))
    .use(modelRoutes(context))
    .use(endpointIndexRoutes(context, table))
    .use(healthRoutes(context))
    .use(customerRoutes(context))
    .use(keyRoutes(context))
    .use(nodeRoutes(context))
    .use(nodeCommandRoutes(context))
    .use(catalogueRoutes(context))
    .use(explainRoutes(context))
  return app
}
