import { askDatabase } from '../db/queries/health.ts'
import { descriptors } from '../host/descriptors.ts'
import { failureName, type Log } from '../log.ts'
import { webhookPublicKey } from '../protocol/signing/webhook-signature.ts'
import type { Config } from '../settings/config.ts'
import { createAddressHash } from './audit/address-hash.ts'
import { checkChains } from './audit/audit-check.ts'
import { createChat } from './chat/chat.ts'
import type { ChatPort } from './chat/exchange.ts'
import { createDecisionLog } from './chat/explain.ts'
import { Ticker } from './chat/ticker.ts'
import { createConsoleFeed } from './console/console-feed.ts'
import { createConsolePage } from './console/console-page.ts'
import { durableCharts } from './console/durable-charts.ts'
import { createStatecharts } from './console/statecharts.ts'
import { createTraffic } from './console/traffic.ts'
import { type Actors, chainOf, createActors } from './gateway-actors.ts'
import type { GatewayParts, RunningGateway } from './gateway-handle.ts'
import { createFailedLogins } from './limits/failed-logins.ts'
import { createMixtures } from './mixture/mixture.ts'
import { createMixtureRecords } from './mixture/mixture-records.ts'
import { createSettlementView } from './money/settlement-view.ts'
import { liveNode } from './pool/live-node.ts'
import { createHealth } from './telemetry/health.ts'
import { createMetrics, type Metrics } from './telemetry/metrics.ts'
import { createSpanExporter } from './telemetry/trace-export.ts'
import { createTracing, type Tracing } from './telemetry/tracing.ts'

/** `/readyz` waits no longer for the first answers of nodes, ms. */
const probingMsMax = 5_000
/** Streams may send their last event for so long, ms. */
const lastEventMs = 500

function observe(metrics: Metrics, { router, receipts, audit, jobs, money, agents: { dialIn } }: Actors): void {
  metrics.observe({
    nodes: () => router.counts().nodes,
    inFlight: () => router.counts().inFlight,
    queued: () => router.counts().queued,
    receiptsWritten: () => receipts.written(),
    receiptsDropped: () => receipts.dropped(),
    jobs: () => jobs.openByStatus(),
    jobsRunning: () => jobs.running(),
    jobClaims: () => jobs.claims(),
    ledger: () => money.ledger.state(),
    tunnels: () => dialIn.counts(),
    hellosRefused: () => dialIn.tunnelDoor.refused(),
    accessEventsWritten: () => audit.writer.written(),
    accessEventsRefused: () => audit.writer.dropped(),
    auditHeadLost: () => audit.headLost,
    payoutBatches: () => money.settlement.counts(),
  })
}

/** What the machine itself runs is found, then every node is asked once. */
async function fillPool({ localNodes, poolFeed, router }: Actors): Promise<void> {
  await localNodes.discover()
  await localNodes.start()
  await poolFeed.start()
  await router.whenServing()
  // What was registered a moment ago came after the first rows: it is asked once, too.
  const fresh = router.nodes().filter(({ state }) => state === 'enrolled')
  await Promise.all(fresh.map(({ nodeId }) => router.pollNow(nodeId)))
}

async function startMoney({ money }: Actors): Promise<void> {
  money.ledger.start()
  money.idempotency.start()
  await money.settlement.start()
}

function startTracing(config: Config, log: Log, metrics: Metrics): Tracing | null {
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } = config
  if (endpoint === null) return null
  const exporter = createSpanExporter({ endpoint, headers, serviceName: config.OTEL_SERVICE_NAME, log })
  metrics.observe({ spansDropped: exporter.dropped.bind(exporter) })
  return createTracing(exporter)
}

/** What the operators' consoles look at. */
function createConsoles({ inspector, router }: Actors, metrics: Metrics, { config, log, database }: GatewayParts) {
  const traffic = createTraffic({ totals: metrics.totals, log })
  const nodes = () => router.nodes().map(liveNode)
  const consolesMax = config.SVC_CONSOLES_MAX
  const durable = durableCharts(database.db)
  return { traffic, feed: createConsoleFeed({ inspector, traffic, nodes, durable, consolesMax, log }) }
}

async function stopActors(actors: Actors, log: Log): Promise<void> {
  // Before the pool: what they run is let go and another gateway may take it at once.
  await actors.jobs.stop()
  await actors.webhooks.stop()
  await actors.money.settlement.stop()
  actors.money.idempotency.stop()
  await actors.localNodes.stop()
  actors.poolFeed.stop()
  await actors.agents.stop()
  await actors.router.stop()
  await actors.receipts.stop().catch((error: unknown) => log.error('receipts_left', { failure: failureName(error) }))
  await actors.money.ledger.stop()
  await actors.auditPurge.stop()
  await actors.audit.stop().catch((error: unknown) => log.error('access_events_left', { failure: failureName(error) }))
  await actors.limits.stop()
  await actors.access.stop()
  await actors.feed.stop()
}

export async function startGateway(parts: GatewayParts): Promise<RunningGateway> {
  const { config, log, database } = parts
  let port = config.SVC_PORT
  const metrics = createMetrics()
  const actors = createActors(parts, await chainOf(parts), () => port, metrics)
  const { access, limits, accounts, pool, agents, router, jobs, webhooks } = actors
  observe(metrics, actors)
  const tracing = startTracing(config, log, metrics)
  const decisions = createDecisionLog()
  const chatPort: ChatPort = {
    config,
    router,
    limits,
    ticker: new Ticker(),
    decided: decisions.record,
    receipt: (receipt) => actors.receipts.write(receipt),
    ledger: actors.money.ledger,
    idempotency: actors.money.idempotency,
    failed: (code) => metrics.upstreamFailure(code),
  }
  const chat = createChat(chatPort)
  const mixtures = createMixtures({
    ...chatPort,
    log,
    inspect: actors.inspector.inspect,
    records: createMixtureRecords(),
    subCall: metrics.subCall,
    counted: metrics.mixture,
    tag: () => crypto.getRandomValues(new Uint8Array(4)).toHex(),
  })
  const consoles = createConsoles(actors, metrics, parts)
  const failedLogins = createFailedLogins({
    perMinute: config.SVC_AUTH_FAILURES_PER_MINUTE,
    lockoutMs: config.SVC_AUTH_LOCKOUT_MS,
  })
  const health = createHealth(() => askDatabase(database.db), descriptors)
  await actors.audit.start()
  await actors.auditPurge.start()
  await actors.feed.start()
  await actors.poolFeed.start()
  await access.start()
  await limits.start()
  await agents.start(router, actors.poolFeed)
  await startMoney(actors)
  consoles.traffic.start()
  const endCalls = async () => {
    chat.abortAll()
    mixtures.abortAll()
    await waitUntil(() => chat.open === 0 && mixtures.open === 0, lastEventMs)
  }
  return {
    config,
    db: database.db,
    log,
    metrics,
    router,
    access,
    failedLogins,
    limits,
    accounts,
    audit: actors.audit,
    auditPurge: actors.auditPurge,
    checkAuditChains: () => checkChains(database.db, parts.auditKeys),
    pool,
    enrollment: agents.enrollment,
    verifyNodeKey: agents.keyVerifier(router),
    agentBundle: agents.bundle,
    routerKeys: agents.routerKeys,
    dialIn: agents.dialIn,
    nodeProofs: agents.proofs,
    chat,
    mixtures,
    jobs,
    webhooks,
    webhookKeys: actors.keys.map(webhookPublicKey),
    ...actors.money,
    settlementView: createSettlementView(database.db),
    tracing,
    statecharts: createStatecharts(),
    consoles: consoles.feed,
    consolePage: createConsolePage(),
    endCalls,
    explain: decisions.explain,
    baseUrl: () => config.SVC_PUBLIC_URL?.replace(/\/+$/, '') ?? `http://${hostOf(config.SVC_HOST)}:${port}`,
    hashAddress: createAddressHash(parts.auditKeys[0] ?? ''),
    health: health.ask,
    listening: async (taken) => {
      port = taken
      const patience = setTimeout(health.started, probingMsMax)
      await fillPool(actors).finally(() => clearTimeout(patience))
      health.started()
      await jobs.start()
      await webhooks.start()
    },
    beginStop: () => {
      health.beginStop()
      // They never end by themselves, and the stop waits for what runs.
      consoles.feed.stop()
    },
    handOver: () => agents.dialIn.handOver(),
    endTunnels: () => agents.dialIn.endTunnels(),
    stop: async () => {
      consoles.feed.stop()
      consoles.traffic.stop()
      await endCalls()
      await stopActors(actors, log)
      await tracing?.stop()
    },
  }
}

const hostOf = (host: string) => (host.includes(':') ? `[${host}]` : host)

async function waitUntil(done: () => boolean, boundMs: number): Promise<void> {
  const until = performance.now() + boundMs
  while (!done() && performance.now() < until) await Bun.sleep(10)
}
