import type { NodeId } from '../ids.ts'
import type { NodeState } from '../machines/rules/routing.ts'
import { type SigningKey, signingKey } from '../protocol/signing/ed25519.ts'
import { readSeed } from '../secrets.ts'
import { createAccessDirectory } from './accounts/access.ts'
import { createAccounts } from './accounts/accounts.ts'
import { createSealing } from './accounts/sealing.ts'
import type { AuditContext } from './audit/audit-context.ts'
import { type AuditLog, createAuditLog } from './audit/audit-log.ts'
import { createAuditPurge } from './audit/audit-purge.ts'
import { createIdempotency } from './chat/idempotency.ts'
import { createChangeFeed } from './durable/change-feed.ts'
import { createAgents } from './gateway-agents.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { createPrivateJobs } from './jobs/private-jobs.ts'
import { createWebhooks } from './jobs/webhooks.ts'
import { createLimits } from './limits/limits.ts'
import { checkBooks } from './log/books-check.ts'
import { createCosigning } from './log/cosigning.ts'
import { nameFork as forkLog } from './log/fork.ts'
import { createPublicLog } from './log/public-log.ts'
import { createSequencer } from './log/sequencer.ts'
import { agentWitnesses, foreignWitness } from './log/witnesses.ts'
import { createBilling } from './money/billing.ts'
import { type Chain, createChain } from './money/chain.ts'
import { createLedger } from './money/ledger.ts'
import { createReceiptWriter } from './money/receipt-writer.ts'
import { createSettlement } from './money/settlement.ts'
import { createLocalNodes } from './pool/local-nodes.ts'
import { createPoolAdmin } from './pool/pool-admin.ts'
import { createPoolFeed } from './pool/pool-feed.ts'
import { createRouter, type PoolRouter } from './pool/router.ts'
import { createInspector, type Inspector } from './telemetry/inspect.ts'
import type { Metrics } from './telemetry/metrics.ts'

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
export async function chainOf({ config }: GatewayParts): Promise<Chain | null> {
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

/** The public log. */
function createTransparency(
  { config, log, database, logKeys, logMemory }: GatewayParts,
  trail: AuditLog,
  router: PoolRouter,
) {
  const [newest, ...older] = signingKeys(logKeys)
  if (newest === undefined) throw new Error('no key to sign the log with')
  const keys = [newest, ...older] as const
  const { db } = database
  const sequencer = createSequencer({ db, log, keys, intervalMs: config.SVC_LOG_INTERVAL_MS, memory: logMemory })
  const nameFork = (context: AuditContext) => forkLog({ db, trail, keys, sequencer }, context)
  const check = () => checkBooks({ db, keys, fork: () => sequencer.fork() })
  const foreign = config.SVC_LOG_WITNESSES.flatMap((text) => foreignWitness(text) ?? [])
  const witnesses = async () => [
    ...foreign,
    ...(await agentWitnesses(db, (nodeId) => router.transport(nodeId as NodeId))),
  ]
  const cosigning = createCosigning({ db, log, keys, sequencer, witnesses, everyMs: config.SVC_LOG_COSIGN_MS })
  return { sequencer, cosigning, publicLog: createPublicLog(db, keys), nameFork, checkBooks: check }
}

/** All actors, made and not yet started. `ownPort`: the one that was really taken. */
export function createActors(parts: GatewayParts, chain: Chain | null, ownPort: () => number, metrics: Metrics) {
  const { config, log, database, peppers } = parts
  const { db } = database
  const random = parts.world?.random ?? Math.random
  const clock = parts.world?.now === undefined ? {} : { now: parts.world.now }
  const sealing = createSealing(parts.secretsKeys)
  const inspector = createInspector(log)
  const feed = createChangeFeed({ ...database, log, ...clock })
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
    ...clock,
  })
  const limits = createLimits({
    ...database,
    log,
    publicPerMinute: config.SVC_PUBLIC_RPM_PER_IP,
    adminPerMinute: config.SVC_ADMIN_RPM_PER_TOKEN,
    random,
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
    ...clock,
  })
  const pool = createPoolAdmin({ db, trail: audit, sealing, changedHere })
  const openSecret = (sealed: Uint8Array) => sealing.open('node_api_key', sealed)
  const { routerKeys } = parts
  const agents = createAgents({ config, database, feed, log, access, trail: audit, peppers, routerKeys })
  const router = createRouter({
    config,
    db,
    log,
    openSecret,
    agents: agents.access,
    inspect: inspector.inspect,
    random,
  })
  const poolFeed = createPoolFeed(router, db, feed, log)
  const localNodes = createLocalNodes({ config, pool, feed, log, ownPort })
  const receipts = createReceiptWriter({ db, flushMs: config.SVC_RECEIPT_FLUSH_MS, log })
  const money = createMoney(parts, chain, inspector.inspect, audit)
  const keys = signingKeys(parts.webhookKeys)
  const transparency = createTransparency(parts, audit, router)
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
  return { ...made, webhooks, jobs, keys, money, transparency }
}

export type Actors = ReturnType<typeof createActors>
