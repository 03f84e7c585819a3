import type { Config } from '../config.ts'
import type { OpenDatabase } from '../db/client.ts'
import { askDatabase } from '../db/queries/health.ts'
import { createPrefixMap } from '../machines/rules/affinity.ts'
import { type AccessDirectory, createAccessDirectory } from './access.ts'
import { type Accounts, createAccounts } from './accounts.ts'
import { createAddressHash } from './address-hash.ts'
import { createChangeFeed } from './change-feed.ts'
import { type Chat, createChat } from './chat.ts'
import { createDecisionLog, type Explanation } from './explain.ts'
import { createFailedLogins, type FailedLogins } from './failed-logins.ts'
import { createHealth, type GatewayHealth } from './health.ts'
import { createInspector } from './inspect.ts'
import { createLimits, type GatewayLimits } from './limits.ts'
import { createLocalNodes } from './local-nodes.ts'
import { failureName, type Log } from './log.ts'
import { createMetrics, type Metrics } from './metrics.ts'
import { createPoolAdmin, type PoolAdmin } from './pool-admin.ts'
import { createPoolFeed } from './pool-feed.ts'
import { createReceiptWriter } from './receipt-writer.ts'
import { createRouter, type PoolRouter } from './router.ts'
import { createSealing } from './sealing.ts'
import { Ticker } from './ticker.ts'

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
  readonly chat: Chat
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
  /** Role tokens made at the first start stand in the database. */
  readonly roleTokensInDatabase: boolean
}

/** Streams may send their last event for so long, ms. */
const lastEventMs = 500

export async function startGateway(parts: GatewayParts): Promise<RunningGateway> {
  const { config, log, database } = parts
  const { db } = database
  let port = config.SVC_PORT
  const sealing = createSealing(parts.secretsKeys)
  const metrics = createMetrics()
  const inspector = createInspector(log)
  const feed = createChangeFeed({ ...database, log })
  const access = createAccessDirectory({
    db,
    feed,
    log,
    peppers: parts.peppers,
    roleTokens: {
      admin: config.SVC_ADMIN_TOKENS,
      operator: config.SVC_OPERATOR_TOKENS,
      viewer: config.SVC_VIEWER_TOKENS,
    },
    roleTokensInDatabase: parts.roleTokensInDatabase,
    outageMs: config.SVC_KEY_OUTAGE_MS,
  })
  const changedHere = feed.changedHere.bind(feed)
  const limits = createLimits({
    ...database,
    log,
    publicPerMinute: config.SVC_PUBLIC_RPM_PER_IP,
    adminPerMinute: config.SVC_ADMIN_RPM_PER_TOKEN,
  })
  const pool = createPoolAdmin({ db, sealing, changedHere })
  const router = createRouter({
    config,
    db,
    log,
    openSecret: (sealed) => sealing.open('node_api_key', sealed),
    inspect: inspector.inspect,
  })
  const receipts = createReceiptWriter({ db, flushMs: config.SVC_RECEIPT_FLUSH_MS, log })
  const decisions = createDecisionLog()
  const localNodes = createLocalNodes({ config, pool, feed, log, ownPort: () => port })
  const chat = createChat({
    config,
    router,
    limits,
    random: Math.random,
    prefixes: createPrefixMap(),
    ticker: new Ticker(),
    decided: decisions.record,
    receipt: (receipt) => receipts.write(receipt),
    failed: (code) => metrics.upstreamFailure(code),
  })
  metrics.observe({
    nodes: () => router.counts().nodes,
    inFlight: () => router.counts().inFlight,
    queued: () => router.counts().queued,
    receiptsWritten: () => receipts.written(),
    receiptsDropped: () => receipts.dropped(),
  })

  const poolFeed = createPoolFeed(router, db, feed, log)
  await feed.start()
  await poolFeed.start()
  await access.start()
  await limits.start()
  const endCalls = async () => {
    chat.abortAll()
    await waitUntil(() => chat.open === 0, lastEventMs)
  }
  const health = createHealth(() => askDatabase(db))

  return {
    config,
    log,
    metrics,
    router,
    access,
    limits,
    pool,
    chat,
    failedLogins: createFailedLogins({
      perMinute: config.SVC_AUTH_FAILURES_PER_MINUTE,
      lockoutMs: config.SVC_AUTH_LOCKOUT_MS,
    }),
    accounts: createAccounts({
      db,
      sealing,
      changedHere,
      peppers: parts.peppers,
      keyRotationMs: config.SVC_KEY_ROTATION_MS,
      forgetKey: (keyId) => access.forgetKey(keyId),
    }),
    explain: decisions.explain,
    baseUrl: () => config.SVC_PUBLIC_URL?.replace(/\/+$/, '') ?? `http://${hostOf(config.SVC_HOST)}:${port}`,
    hashAddress: createAddressHash(parts.auditKeys[0] ?? ''),
    health: health.ask,
    listening: async (taken) => {
      port = taken
      await localNodes.discover()
      await localNodes.start()
      await poolFeed.start()
      await router.whenServing()
      // What was registered a moment ago came after the first rows: it is asked once, too.
      const fresh = router.nodes().filter(({ state }) => state === 'enrolled')
      await Promise.all(fresh.map(({ nodeId }) => router.pollNow(nodeId)))
    },
    beginStop: health.beginStop,
    endCalls,
    stop: async () => {
      await endCalls()
      await localNodes.stop()
      poolFeed.stop()
      await router.stop()
      await receipts.stop().catch((error: unknown) => log.error('receipts_left', { failure: failureName(error) }))
      await limits.stop()
      await access.stop()
      await feed.stop()
    },
  }
}

const hostOf = (host: string) => (host.includes(':') ? `[${host}]` : host)

async function waitUntil(done: () => boolean, boundMs: number): Promise<void> {
  const until = performance.now() + boundMs
  while (!done() && performance.now() < until) await Bun.sleep(10)
}
