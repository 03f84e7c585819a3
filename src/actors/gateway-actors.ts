import { askDatabase } from '../db/queries/health.ts'
import { MemoryBudget } from '../host/budget.ts'
import { descriptors } from '../host/descriptors.ts'
import { LargeWork } from '../host/large-work.ts'
import { tokenizerMs } from '../polling/ask-tokenizer.ts'
import { VectorLengths } from '../protocol/embeddings/vector-lengths.ts'
import { tokenNames } from '../settings/token-names.ts'
import { AccessDirectory } from './accounts/access-directory.ts'
import { Accounts } from './accounts/accounts.ts'
import { createSealing } from './accounts/sealing.ts'
import type { AuditContext } from './audit/audit-context.ts'
import { AuditLog } from './audit/audit-log.ts'
import { AuditPurge } from './audit/audit-purge.ts'
import { nameRows } from './audit/row-naming.ts'
import { createBaseUrl } from './base-url.ts'
import { createChat } from './chat/chat.ts'
import type { ChatPort } from './chat/chat-port.ts'
import { ChangeFeed } from './durable/change-feed.ts'
import { DecisionLog } from './explain/decision-log.ts'
import { createConsoles } from './gateway-consoles.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { createJobs } from './gateway-jobs.ts'
import { createTransparency } from './gateway-log.ts'
import { createMoney } from './gateway-money.ts'
import { createOperators, oidcSources } from './gateway-operators.ts'
import { createPool } from './gateway-pool.ts'
import { createFailedLogins } from './limits/failed-logins.ts'
import { GatewayLimits } from './limits/limits.ts'
import { createReceiptMacs } from './log/receipt-macs.ts'
import { Mixtures } from './mixture/mixture.ts'
import { createMixtureRecords } from './mixture/mixture-records.ts'
import type { EvmChain } from './money/evm-chain.ts'
import { TimedReceipts } from './money/timed-receipts.ts'
import { MemoryPlanner } from './planning/memory-planner.ts'
import { Ticker } from './relay/ticker.ts'
import { RequestLog } from './requests/request-log.ts'
import { alone, createSiblings } from './siblings/siblings.ts'
import { createHealth } from './telemetry/health.ts'
import { createInspector } from './telemetry/inspect.ts'
import { createMetrics } from './telemetry/metrics.ts'
import { createSpanExporter } from './telemetry/trace-export.ts'
import { createTracing } from './telemetry/tracing.ts'
import { NodeTokens } from './tokens/node-tokens.ts'

/** Creates all actors in the order in which they need each other, without starting them. */
export function createActors(parts: GatewayParts, chain: EvmChain | null) {
  const { config } = parts
  /** `port` becomes the one on which the gateway really listens. `leaving`: this process ends, and others go on. */
  const listener = { port: config.SVC_PORT, leaving: false }
  const baseUrl = createBaseUrl(config, listener)
  const watching = createWatching(parts)
  const keeping = createKeeping(parts)
  const siblings = parts.place === undefined ? alone : createSiblings(parts.place)
  const pool = createPool(parts, watching, { ...keeping, siblings }, listener)
  const money = createMoney(parts, { ...watching, ...keeping }, chain)
  const jobs = createJobs(parts, { ...watching, ...keeping, ...pool })
  const transparency = createTransparency(parts, keeping, pool.router)
  const calls = createCalls(parts, { ...watching, ...keeping, ...pool, ...money, ...transparency }, baseUrl)
  const consoles = createConsoles(parts, watching, { ...pool, siblings })
  const planner = new MemoryPlanner({
    ...pool,
    mode: config.SVC_PLAN,
    wishes: pool.modelWishes,
    requests: watching.requests,
    siblings,
    log: parts.log,
  })
  pool.demands.onWait(() => planner.soon())
  return {
    listener,
    baseUrl,
    ...watching,
    ...keeping,
    ...pool,
    ...money,
    ...jobs,
    ...transparency,
    ...calls,
    ...consoles,
    siblings,
    planner,
  }
}

export type Actors = ReturnType<typeof createActors>
type Watching = ReturnType<typeof createWatching>
type Keeping = ReturnType<typeof createKeeping>
type Pool = ReturnType<typeof createPool>
type Money = ReturnType<typeof createMoney>
type CallActors = Watching & Keeping & Pool & Money & Pick<ReturnType<typeof createTransparency>, 'promises'>

const clockOf = ({ world }: GatewayParts) => (world?.now === undefined ? {} : { now: world.now })
const randomOf = ({ world }: GatewayParts) => world?.random ?? Math.random

/** What is told of everything else. */
function createWatching({ config, log, database }: GatewayParts) {
  const metrics = createMetrics()
  const inspector = createInspector(log)
  const health = createHealth(() => askDatabase(database.db), descriptors)
  const decisions = new DecisionLog()
  const { SVC_REQUEST_LOG_DAYS: days, SVC_RECEIPT_FLUSH_MS: flushMs } = config
  const requests = new RequestLog({ ...database, log, days, flushMs })
  const { OTEL_EXPORTER_OTLP_ENDPOINT: endpoint, OTEL_EXPORTER_OTLP_HEADERS: headers } = config
  if (endpoint === null) return { metrics, inspector, health, decisions, requests, tracing: null }
  const exporter = createSpanExporter({ endpoint, headers, serviceName: config.OTEL_SERVICE_NAME, log })
  metrics.observe({ spansDropped: exporter.dropped.bind(exporter) })
  return { metrics, inspector, health, decisions, requests, tracing: createTracing(exporter) }
}

/** Who may do what and how often, and the audit of it. */
function createKeeping(parts: GatewayParts) {
  const { config, log, database, peppers, auditKeys } = parts
  const { db } = database
  const clock = clockOf(parts)
  const feed = new ChangeFeed({ ...database, log, ...clock })
  const changedHere = feed.changedHere.bind(feed)
  const access = new AccessDirectory({
    db,
    feed,
    log,
    peppers,
    roleTokens: {
      admin: config.SVC_ADMIN_TOKENS,
      operator: config.SVC_OPERATOR_TOKENS,
      viewer: config.SVC_VIEWER_TOKENS,
    },
    tokenNames: tokenNames(config.SVC_TOKEN_NAMES),
    roleTokensInDatabase: parts.roleTokensInDatabase,
    outageMs: config.SVC_KEY_OUTAGE_MS,
    sessionIdleMs: config.SVC_SESSION_IDLE_MS,
    oidcSources: oidcSources(config),
    ...clock,
  })
  const limits = new GatewayLimits({
    ...database,
    log,
    publicPerMinute: config.SVC_PUBLIC_RPM_PER_IP,
    adminPerMinute: config.SVC_ADMIN_RPM_PER_TOKEN,
    random: randomOf(parts),
  })
  const memory = MemoryBudget.ofMegabytes(config.SVC_MEMORY_MB)
  const failedLogins = createFailedLogins({
    perMinute: config.SVC_AUTH_FAILURES_PER_MINUTE,
    lockoutMs: config.SVC_AUTH_LOCKOUT_MS,
  })
  const audit = new AuditLog({ db, log, keys: auditKeys, policyOf: parts.policyOf })
  const retentionDaysMin = config.SVC_AUDIT_MIN_RETENTION_DAYS
  const auditPurge = new AuditPurge({ database, trail: audit, log, keys: auditKeys, retentionDaysMin })
  const sealing = createSealing(parts.secretsKeys)
  const macs = createReceiptMacs(parts.logKeys)
  const timed = new TimedReceipts(db)
  const accounts = new Accounts({
    db,
    trail: audit,
    sealing,
    changedHere,
    peppers,
    keyRotationMs: config.SVC_KEY_ROTATION_MS,
    forgetKey: (keyId) => access.forgetKey(keyId),
    ...clock,
  })
  const operators = createOperators(parts, { access, audit, sealing, changedHere })
  const own = { feed, changedHere, access, callers: access.callers, limits, memory, failedLogins, audit }
  const named = { nameRows: (context: AuditContext) => nameRows({ db, trail: audit }, context) }
  return { ...own, ...named, auditPurge, sealing, accounts, macs, timed, ...operators }
}

/** What answers inference requests. */
function createCalls(parts: GatewayParts, actors: CallActors, baseUrl: () => string) {
  const { config, log } = parts
  const {
    metrics,
    inspector,
    decisions,
    router,
    waker,
    rouser,
    limits,
    memory,
    receipts,
    ledger,
    idempotency,
    ownModels,
    demands,
  } = actors
  const chatPort: ChatPort = {
    config,
    router,
    waker,
    rouser,
    limits,
    ownModels,
    memory,
    largeWork: new LargeWork(),
    vectorLengths: new VectorLengths(),
    ticker: new Ticker(),
    baseUrl,
    decided: (command, decision, again, ofModel = again) => {
      decisions.record(command, decision, again)
      if (!ofModel) demands.asked(decision.placement)
    },
    receipt: (receipt) => receipts.write(receipt),
    timed: actors.timed.issued,
    promises: actors.promises,
    ledger,
    idempotency,
    failed: (code) => metrics.upstreamFailure(code),
  }
  const mixtures = new Mixtures({
    ...chatPort,
    log,
    inspect: inspector.inspect,
    records: createMixtureRecords(),
    subCall: metrics.subCall,
    counted: metrics.mixture,
    tag: () => crypto.getRandomValues(new Uint8Array(4)).toHex(),
  })
  return { chat: createChat(chatPort), mixtures, nodeTokens: new NodeTokens({ ...chatPort, nodeMs: tokenizerMs }) }
}
