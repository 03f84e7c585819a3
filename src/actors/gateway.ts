import type { Config } from '../config.ts'
import type { Database, OpenDatabase } from '../db/client.ts'
import { askDatabase } from '../db/queries/health.ts'
import { countDeliveriesByStatus } from '../db/queries/webhooks.ts'
import { failureName, type Log } from '../log.ts'
import { payoutBatchMachine } from '../machines/payout-batch.ts'
import { privateJobMachine } from '../machines/private-job.ts'
import type { NodeState } from '../machines/routing.ts'
import { createPrefixMap } from '../machines/rules/affinity.ts'
import { webhookDeliveryMachine } from '../machines/webhook-delivery.ts'
import { type SigningKey, signingKey } from '../protocol/ed25519.ts'
import { webhookPublicKey } from '../protocol/webhook-signature.ts'
import type { RouterKeys } from '../protocol/wire/agent.ts'
import { readSeed } from '../secrets.ts'
import { type AccessDirectory, createAccessDirectory } from './access.ts'
import { type Accounts, createAccounts } from './accounts.ts'
import { createAddressHash } from './address-hash.ts'
import type { AgentBundle } from './agent-bundle.ts'
import { createAgents } from './agents.ts'
import { type ChainReport, checkChains } from './audit-check.ts'
import { type AuditLog, createAuditLog } from './audit-log.ts'
import { type AuditPurge, createAuditPurge } from './audit-purge.ts'
import { type Billing, createBilling } from './billing.ts'
import { type Chain, createChain } from './chain.ts'
import { createChangeFeed } from './change-feed.ts'
import { type Chat, createChat } from './chat.ts'
import { type ConsoleFeed, createConsoleFeed } from './console-feed.ts'
import { type ConsolePage, createConsolePage } from './console-page.ts'
import type { DialIn } from './dial-in.ts'
import type { Enrollment } from './enrollment.ts'
import type { ChatPort } from './exchange.ts'
import { createDecisionLog, type Explanation } from './explain.ts'
import { createFailedLogins, type FailedLogins } from './failed-logins.ts'
import { createHealth, type GatewayHealth } from './health.ts'
import { createIdempotency } from './idempotency.ts'
import { createInspector, type Inspector } from './inspect.ts'
import { createLedger, type Ledger } from './ledger.ts'
import { createLimits, type GatewayLimits } from './limits.ts'
import { liveNode } from './live-node.ts'
import { createLocalNodes } from './local-nodes.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createMixtures, type Mixtures } from './mixture.ts'
import { createMixtureRecords } from './mixture-records.ts'
import type { VerifyNodeKey } from './node-keys.ts'
import type { NodeProofs } from './node-proofs.ts'
import { createPoolAdmin, type PoolAdmin } from './pool-admin.ts'
import { createPoolFeed } from './pool-feed.ts'
import { createPrivateJobs, type PrivateJobs } from './private-jobs.ts'
import { createReceiptWriter } from './receipt-writer.ts'
import { createRouter, type PoolRouter } from './router.ts'
import { createSealing } from './sealing.ts'
import { createSettlement, type Settlement } from './settlement.ts'
import { createSettlementView, type SettlementView } from './settlement-view.ts'
import { createStatecharts, type Statecharts } from './statecharts.ts'
import { Ticker } from './ticker.ts'
import { createSpanExporter } from './trace-export.ts'
import { createTracing, type Tracing } from './tracing.ts'
import { createTraffic } from './traffic.ts'
import { createWebhooks, type Webhooks, type WebhookWorld } from './webhooks.ts'

/** All that HTTP may do with the running gateway. */
export interface GatewayHandle {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly router: PoolRouter
  readonly access: AccessDirectory
  readonly failedLogins: FailedLogins
  readonly limits: GatewayLimits
  readonly accounts: Accounts
  readonly audit: AuditLog
  readonly auditPurge: AuditPurge
  /** Refuses with `invalid_state` while a purge runs. */
  checkAuditChains(): Promise<ChainReport>
  readonly pool: PoolAdmin
  readonly enrollment: Enrollment
  readonly verifyNodeKey: VerifyNodeKey
  readonly agentBundle: AgentBundle
  readonly routerKeys: RouterKeys
  readonly chat: Chat
  readonly mixtures: Mixtures
  /** null: off, as it is unless a collector is named (decisions §18). */
  readonly tracing: Tracing | null
  readonly statecharts: Statecharts
  readonly consoles: ConsoleFeed
  readonly consolePage: ConsolePage
  /** Nodes that dial in, and the other gateways that they reach. */
  readonly dialIn: DialIn
  readonly jobs: PrivateJobs
  readonly webhooks: Webhooks
  /** `whpk_…`, newest first: what receivers check signatures with. */
  readonly webhookKeys: readonly string[]
  readonly ledger: Ledger
  readonly billing: Billing
  readonly settlement: Settlement
  /** Read at most every 15 s. */
  readonly settlementView: () => Promise<SettlementView>
  readonly nodeProofs: Pick<NodeProofs, 'check'>
  /** For reads alone: whoever writes asks an actor. */
  readonly db: Database
  /** null: never seen, or no longer among the last 10 000. */
  explain(requestId: string): Explanation | null
  /** `{base_url}` without a trailing slash; follows the port that was really taken. */
  baseUrl(): string
  /** Keyed hash of a client's address: what logs, limits and audits may hold of it. */
  hashAddress(address: string): string
  /** Asks the database at most once a second. */
  health(): Promise<GatewayHealth>
}

export interface RunningGateway extends GatewayHandle {
  /** Tells the port that was really taken; then looks for runtimes and waits until the pool has been asked once. */
  listening(port: number): Promise<void>
  /** `/readyz` says so from now on. */
  beginStop(): void
  /** Nodes that dialled in move to another gateway of the pool, where there is one. The HTTP server must still be there. */
  handOver(): Promise<void>
  /** No request runs any more: Bun's server does not stop while a WebSocket is open (seen). */
  endTunnels(): void
  /** Ends the chats that still run: streams hear `server_shutdown` (decisions §1). The HTTP server must still be there. */
  endCalls(): Promise<void>
  /** Ends what still runs, then the actors, in the reverse order of their start. */
  stop(): Promise<void>
}

export interface GatewayParts {
  readonly config: Config
  readonly log: Log
  readonly database: OpenDatabase
  /** Newest first. */
  readonly peppers: readonly string[]
  readonly secretsKeys: readonly string[]
  readonly auditKeys: readonly string[]
  /** Ed25519 seeds, as `readSeed` takes them. */
  readonly routerKeys: readonly string[]
  readonly webhookKeys: readonly string[]
  /** Role tokens made at the first start stand in the database. */
  readonly roleTokensInDatabase: boolean
  /** Clock, names and wire of webhooks; default: the real ones. The clock is that of private jobs and accounts, too. */
  readonly world?: Partial<WebhookWorld>
}

/** Streams may send their last event for so long, ms. */
const lastEventMs = 500

function signingKeys(seeds: readonly string[]): readonly SigningKey[] {
  return seeds.map((text) => {
    const seed = readSeed(text)
    if (seed === null) throw new Error('a signing seed has no 32 bytes')
    return signingKey(seed)
  })
}

const portsOf = (list: readonly string[]) => (list.length === 0 ? [443] : list.map(Number))

const answers = (state: NodeState) => state === 'ready' || state === 'live' || state === 'draining'

/** Private jobs and the webhooks that tell of their ends. */
function createJobActors(
  { config, log, database, world = {} }: GatewayParts,
  router: PoolRouter,
  shared: Pick<Parameters<typeof createWebhooks>[0], 'sealing' | 'inspect' | 'counted' | 'keys' | 'trail'>,
) {
  const webhooks = createWebhooks({ ...database, ...shared, log, ports: portsOf(config.SVC_WEBHOOK_PORTS), world })
  const jobs = createPrivateJobs({
    ...database,
    log,
    webhooks,
    trail: shared.trail,
    inspect: shared.inspect,
    nodes: {
      reachable: () => router.nodes().filter((node) => answers(node.state) && router.transport(node.nodeId) !== null),
      transport: (nodeId) => router.transport(nodeId),
    },
    runningPerNodeMax: config.SVC_JOBS_RUNNING_PER_NODE_MAX,
    retentionMs: config.SVC_JOB_RETENTION_MS,
    limits: {
      openPerCustomerMax: config.SVC_JOBS_OPEN_PER_CUSTOMER_MAX,
      openPerNodeMax: config.SVC_JOBS_OPEN_PER_NODE_MAX,
      ttlMs: config.SVC_JOB_TTL_MS,
    },
    ...(world.now === undefined ? {} : { now: world.now }),
  })
  return { webhooks, jobs }
}

/** null: none is configured. */
async function chainOf({ config }: GatewayParts): Promise<Chain | null> {
  const { SVC_CHAIN_RPC_URL: rpcUrl, SVC_CHAIN_KEY: key, SVC_CHAIN_CONTRACT: contract } = config
  if (rpcUrl === null || key === null || contract === null) return null
  const { SVC_CHAIN_ID: chainId, SVC_CHAIN_CONFIRMATIONS: confirmations } = config
  return createChain({ rpcUrl, key, contract, chainId, confirmations })
}

/** What moves money. */
function createMoney(parts: GatewayParts, chain: Chain | null, inspect: Inspector['inspect'], trail: AuditLog) {
  const { config, log, database } = parts
  const { db } = database
  const settlement = createSettlement({
    ...database,
    log,
    trail,
    chain,
    inspect,
    pollMs: config.SVC_SETTLEMENT_POLL_MS,
    batchAgeMs: config.SVC_PAYOUT_BATCH_AGE_MS,
    batchMinWei: config.SVC_PAYOUT_BATCH_MIN_WEI,
  })
  const idempotency = createIdempotency({ db, log, peppers: parts.peppers })
  return { ledger: createLedger({ db, log }), billing: createBilling({ db, trail }), settlement, idempotency }
}

/** All actors, made and not yet started. `ownPort`: the one that was really taken. */
function createActors(parts: GatewayParts, chain: Chain | null, ownPort: () => number, metrics: Metrics) {
  const { config, log, database, peppers } = parts
  const { db } = database
  const sealing = createSealing(parts.secretsKeys)
  const inspector = createInspector(log)
  const feed = createChangeFeed({ ...database, log })
  const changedHere = feed.changedHere.bind(feed)
  const access = createAccessDirectory({
    db,
    feed,
    log,
    peppers,
    roleTokens: {
      admin: config.SVC_ADMIN_TOKENS,
      operator: config.SVC_OPERATOR_TOKENS,
      viewer: config.SVC_VIEWER_TOKENS,
    },
    roleTokensInDatabase: parts.roleTokensInDatabase,
    outageMs: config.SVC_KEY_OUTAGE_MS,
  })
  const limits = createLimits({
    ...database,
    log,
    publicPerMinute: config.SVC_PUBLIC_RPM_PER_IP,
    adminPerMinute: config.SVC_ADMIN_RPM_PER_TOKEN,
  })
  const audit = createAuditLog({ db, log, keys: parts.auditKeys })
  const auditPurge = createAuditPurge({
    database,
    trail: audit,
    log,
    keys: parts.auditKeys,
    retentionDaysMin: config.SVC_AUDIT_MIN_RETENTION_DAYS,
  })
  const accounts = createAccounts({
    db,
    trail: audit,
    sealing,
    changedHere,
    peppers,
    keyRotationMs: config.SVC_KEY_ROTATION_MS,
    forgetKey: (keyId) => access.forgetKey(keyId),
    ...(parts.world?.now === undefined ? {} : { now: parts.world.now }),
  })
  const pool = createPoolAdmin({ db, trail: audit, sealing, changedHere })
  const openSecret = (sealed: Uint8Array) => sealing.open('node_api_key', sealed)
  const { routerKeys } = parts
  const agents = createAgents({ config, database, feed, log, access, trail: audit, peppers, routerKeys })
  const router = createRouter({ config, db, log, openSecret, agents: agents.access, inspect: inspector.inspect })
  const poolFeed = createPoolFeed(router, db, feed, log)
  const localNodes = createLocalNodes({ config, pool, feed, log, ownPort })
  const receipts = createReceiptWriter({ db, flushMs: config.SVC_RECEIPT_FLUSH_MS, log })
  const money = createMoney(parts, chain, inspector.inspect, audit)
  const keys = signingKeys(parts.webhookKeys)
  const counted = metrics.webhookAttempt
  const shared = { sealing, inspect: inspector.inspect, counted, keys, trail: audit }
  const { webhooks, jobs } = createJobActors(parts, router, shared)
  const made = {
    feed,
    access,
    limits,
    audit,
    auditPurge,
    accounts,
    pool,
    agents,
    inspector,
    router,
    poolFeed,
    localNodes,
    receipts,
  }
  return { ...made, webhooks, jobs, keys, money }
}

type Actors = ReturnType<typeof createActors>

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
    accessEventsRefused: () => audit.writer.refused(),
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

/** What the operators' consoles look at. `resting`: a line per durable chart. */
function createConsoles(
  { inspector, router, jobs, money }: Actors,
  metrics: Metrics,
  { config, log, database }: GatewayParts,
) {
  const traffic = createTraffic({ totals: metrics.totals, log })
  const nodes = () => router.nodes().map(liveNode)
  const consolesMax = config.SVC_CONSOLES_MAX
  const resting = {
    [privateJobMachine.id]: () => jobs.openByStatus(),
    [webhookDeliveryMachine.id]: () => countDeliveriesByStatus(database.db),
    [payoutBatchMachine.id]: () => money.settlement.counts(),
  }
  return { traffic, feed: createConsoleFeed({ inspector, traffic, nodes, resting, consolesMax, log }) }
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
    random: Math.random,
    prefixes: createPrefixMap(),
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
  const health = createHealth(() => askDatabase(database.db))
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
      await fillPool(actors)
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
