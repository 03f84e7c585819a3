import { type AnyElysia, Elysia } from 'elysia'
import { adminRoutes } from '../actions/registry.ts'
import type { GatewayHandle } from '../actors/gateway-handle.ts'
import { operations } from '../actors/operations/registry.ts'
import { tunnelSocketOptions } from '../actors/tunnels/tunnel-socket.ts'
import { idleSeconds } from '../listener/connection-clock.ts'
import { createHttpContext } from './frame/context.ts'
import { checkAdminRoutes, RouteTable } from './frame/route-table.ts'
import { gatewayDoor } from './gateway-door.ts'
import { inferenceDoors } from './inference/inference-door.ts'
import { problems } from './plugins/problems.ts'
import { operatorRoutes } from './routes/admin/operator-routes.ts'
import { billingRoutes } from './routes/billing/billing.ts'
import { billingRequestRoutes } from './routes/billing/billing-requests.ts'
import { receiptProofRoutes } from './routes/billing/receipts.ts'
import { consoleRoutes } from './routes/console.ts'
import { docsRoutes } from './routes/docs.ts'
import { apiCatalogRoutes, endpointIndexRoutes, rootRoutes } from './routes/endpoint-index.ts'
import { healthRoutes } from './routes/health.ts'
import { inferenceRoutes } from './routes/inference.ts'
import { marketplaceRoutes } from './routes/marketplace.ts'
import { modelRoutes } from './routes/models.ts'
import { agentFileRoutes } from './routes/node-agent/agent-file.ts'
import { bunFileRoutes } from './routes/node-agent/bun-file.ts'
import { copyRoutes } from './routes/node-agent/copies.ts'
import { enrollRoutes } from './routes/node-agent/enroll.ts'
import { joinRoutes } from './routes/node-agent/join.ts'
import { keyVerifyRoutes } from './routes/node-agent/key-verify.ts'
import { nodeAlarmRoutes } from './routes/node-agent/node-alarms.ts'
import { routerKeyRoutes } from './routes/node-agent/router-keys.ts'
import { nodePayeeRoutes } from './routes/node-payee.ts'
import { nodePayoutRoutes } from './routes/node-payouts.ts'
import { nodeTunnelRoutes } from './routes/node-tunnel.ts'
import { peerRoutes } from './routes/peer.ts'
import { pricingRoutes } from './routes/pricing.ts'
import { privateJobRoutes } from './routes/private-jobs.ts'
import { publicLogRoutes } from './routes/public-log.ts'
import { publicPayoutRoutes } from './routes/public-payouts.ts'
import { sealedRoutes } from './routes/sealed.ts'
import { settlementRoutes } from './routes/settlement.ts'
import { oidcRoutes } from './routes/sign-in/oidc.ts'
import { tokenCountRoutes } from './routes/tokens/token-counts.ts'
import { tokenizeRoutes } from './routes/tokens/tokenize.ts'
import { verifyPageRoutes } from './routes/verify-page.ts'
import { webhookKeyRoutes } from './routes/webhook-keys.ts'

/**
 * Bun answers a larger body with an empty 413 before any hook runs, so its limit is out of reach and each route sets its
 * own (see `readJsonText`), with the error body the caller expects.
 */
const bunBodyBytesMax = Number.MAX_SAFE_INTEGER

/** The HTTP interface of a running gateway. The caller listens. */
export function createApp(gateway: GatewayHandle): AnyElysia {
  const context = createHttpContext(gateway, () => app.server)
  let mounted: RouteTable | null = null
  const table = (): RouteTable => {
    mounted ??= new RouteTable(app)
    return mounted
  }
  const doors = inferenceDoors(context, operations)
  const posts = new Map(
    [...doors].map(([path, door]) => [path, (request: Request) => door.handle(request, app.server)]),
  )
  const { wrap, adapter } = gatewayDoor(context, table, () => app.server, posts)
  const app: AnyElysia = new Elysia({
    adapter,
    serve: { maxRequestBodySize: bunBodyBytesMax, idleTimeout: idleSeconds, development: false },
    websocket: tunnelSocketOptions,
    // Without this Elysia looks for the path behind the eleventh character, which is wrong for a short host.
    handler: { standardHostname: false },
  })
    // Elysia's type describes the result of the handler, but it means the handler.
    .wrap(wrap as never)
    .use(problems(context, table))
    .use(inferenceRoutes(doors))
    .use(sealedRoutes(context))
    .use(tokenCountRoutes(context))
    .use(tokenizeRoutes(context))
    .use(modelRoutes(context))
    .use(endpointIndexRoutes(context, table))
    .use(rootRoutes(context, table))
    .use(apiCatalogRoutes(context))
    .use(pricingRoutes(context, table))
    .use(settlementRoutes(context))
    .use(publicPayoutRoutes(context))
    .use(marketplaceRoutes(context))
    .use(nodePayoutRoutes(context))
    .use(nodePayeeRoutes(context))
    .use(nodeAlarmRoutes(context))
    .use(billingRoutes(context))
    .use(billingRequestRoutes(context))
    .use(receiptProofRoutes(context))
    .use(docsRoutes(context, (): AnyElysia => app))
    .use(consoleRoutes(context))
    .use(oidcRoutes(context))
    .use(verifyPageRoutes(context))
    .use(healthRoutes(context))
    .use(operatorRoutes(context))
    .use(agentFileRoutes(context))
    .use(bunFileRoutes(context))
    .use(enrollRoutes(context))
    .use(joinRoutes(context))
    .use(routerKeyRoutes(context))
    .use(keyVerifyRoutes(context))
    .use(copyRoutes(context))
    .use(nodeTunnelRoutes(context))
    .use(peerRoutes(context))
    .use(privateJobRoutes(context))
    .use(webhookKeyRoutes(context))
    .use(publicLogRoutes(context))
  checkAdminRoutes(app, adminRoutes)
  return app
}
