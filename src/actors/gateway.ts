import type { Config } from '../config.ts'
import type { OpenDatabase } from '../db/client.ts'
import { askDatabase } from '../db/queries/health.ts'
import { createPrefixMap } from '../machines/rules/affinity.ts'
import type { RouterKeys } from '../protocol/wire/agent.ts'
import { type AccessDirectory, createAccessDirectory } from './access.ts'
import { type Accounts, createAccounts } from './accounts.ts'
import { createAddressHash } from './address-hash.ts'
import type { AgentBundle } from './agent-bundle.ts'
import { createAgents } from './agents.ts'
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
import { createInspector } from './inspect.ts'
import { createLimits, type GatewayLimits } from './limits.ts'
import { liveNode } from './live-node.ts'
import { createLocalNodes } from './local-nodes.ts'
import { failureName, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createMixtures, type Mixtures } from './mixture.ts'
import { createMixtureRecords } from './mixture-records.ts'
import type { VerifyNodeKey } from './node-keys.ts'
import { createPoolAdmin, type PoolAdmin } from './pool-admin.ts'
import { createPoolFeed } from './pool-feed.ts'
import { createReceiptWriter } from './receipt-writer.ts'
import { createRouter, type PoolRouter } from './router.ts'
import { createSealing } from './sealing.ts'
import { createStatecharts, type Statecharts } from './statecharts.ts'
import { Ticker } from './ticker.ts'
import { createTraffic } from './traffic.ts'

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
  readonly pool: PoolAdmin
  readonly enrollment: Enrollment
  readonly verifyNodeKey: VerifyNodeKey
  readonly agentBundle: AgentBundle
  readonly routerKeys: RouterKeys
  readonly chat: Chat
  readonly mixtures: Mixtures
  readonly statecharts: Statecharts
  readonly consoles: ConsoleFeed
  readonly consolePage: ConsolePage
  /** Nodes that dial in, and the other gateways that they reach. */
  readonly dialIn: DialIn
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
  /** Role tokens made at the first start stand in the database. */
  readonly roleTokensInDatabase: boolean
}

/** Streams may send their last event for so long, ms. */
const lastEventMs = 500

/** All actors, made and not yet started. `ownPort`: the one that was really taken. */
function createActors(parts: GatewayParts, ownPort: () => number) {
  const { config, log, database, peppers } = parts
  const { db } = database
  const sealing = createSealing(parts.secretsKeys)
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
  const accounts = createAccounts({
    db,
    sealing,
    changedHere,
    peppers,
    keyRotationMs: config.SVC_KEY_ROTATION_MS,
    forgetKey: (keyId) => access.forgetKey(keyId),
  })
  const pool = createPoolAdmin({ db, sealing, changedHere })
  const openSecret = (sealed: Uint8Array) => sealing.open('node_api_key', sealed)
  const { routerKeys } = parts
  const agents = createAgents({ config, database, feed, log, access, peppers, routerKeys })
  const inspector = createInspector(log)
  const router = createRouter({ config, db, log, openSecret, agents: agents.access, inspect: inspector.inspect })
  const poolFeed = createPoolFeed(router, db, feed, log)
  const localNodes = createLocalNodes({ config, pool, feed, log, ownPort })
  const receipts = createReceiptWriter({ db, flushMs: config.SVC_RECEIPT_FLUSH_MS, log })
  return { feed, access, limits, accounts, pool, agents, inspector, router, poolFeed, localNodes, receipts }
}

type Actors = ReturnType<typeof createActors>

function observe(metrics: Metrics, { router, receipts }: Actors): void {
  metrics.observe({
    nodes: () => router.counts().nodes,
    inFlight: () => router.counts().inFlight,
    queued: () => router.counts().queued,
    receiptsWritten: () => receipts.written(),
    receiptsDropped: () => receipts.dropped(),
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

/** What the operators' consoles look at. `resting`: a line per durable chart. */
function createConsoles({ inspector, router }: Actors, metrics: Metrics, { config, log }: GatewayParts) {
  const traffic = createTraffic({ totals: metrics.totals, log })
  const nodes = () => router.nodes().map(liveNode)
  const consolesMax = config.SVC_CONSOLES_MAX
  return { traffic, feed: createConsoleFeed({ inspector, traffic, nodes, resting: {}, consolesMax, log }) }
}

async function stopActors(actors: Actors, log: Log): Promise<void> {
  await actors.localNodes.stop()
  actors.poolFeed.stop()
  await actors.agents.stop()
  await actors.router.stop()
  await actors.receipts.stop().catch((error: unknown) => log.error('receipts_left', { failure: failureName(error) }))
  await actors.limits.stop()
  await actors.access.stop()
  await actors.feed.stop()
}

export async function startGateway(parts: GatewayParts): Promise<RunningGateway> {
  const { config, log, database } = parts
  let port = config.SVC_PORT
  const actors = createActors(parts, () => port)
  const { access, limits, accounts, pool, agents, router } = actors
  const metrics = createMetrics()
  observe(metrics, actors)
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
  await actors.feed.start()
  await actors.poolFeed.start()
  await access.start()
  await limits.start()
  await agents.start(router, actors.poolFeed)
  consoles.traffic.start()
  const endCalls = async () => {
    chat.abortAll()
    mixtures.abortAll()
    await waitUntil(() => chat.open === 0 && mixtures.open === 0, lastEventMs)
  }
  return {
    config,
    log,
    metrics,
    router,
    access,
    failedLogins,
    limits,
    accounts,
    pool,
    enrollment: agents.enrollment,
    verifyNodeKey: agents.keyVerifier(router),
    agentBundle: agents.bundle,
    routerKeys: agents.routerKeys,
    dialIn: agents.dialIn,
    chat,
    mixtures,
    statecharts: createStatecharts(),
    consoles: consoles.feed,
    consolePage: createConsolePage(),
    endCalls,
    explain: decisions.explain,
    baseUrl: () => config.SVC_PUBLIC_URL?.replace(/\/+$/, '') ?? `http://${hostOf(config.SVC_HOST)}:${port}`,
    hashAddress: createAddressHash(parts.auditKeys[0] ?? ''),
    health: health.ask,
    listening: (taken) => {
      port = taken
      return fillPool(actors)
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
    },
  }
}

const hostOf = (host: string) => (host.includes(':') ? `[${host}]` : host)

async function waitUntil(done: () => boolean, boundMs: number): Promise<void> {
  const until = performance.now() + boundMs
  while (!done() && performance.now() < until) await Bun.sleep(10)
}
