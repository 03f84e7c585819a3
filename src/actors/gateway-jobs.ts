import { webhookPublicKey } from '../protocol/signing/webhook-signature.ts'
import type { Sealing } from './accounts/sealing.ts'
import { seededKey } from './accounts/seeded-key.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { GatewayParts } from './gateway-handle.ts'
import { createPrivateJobs } from './jobs/private-jobs.ts'
import { createWebhooks } from './jobs/webhooks.ts'
import type { ReceiptMacs } from './log/receipt-macs.ts'
import type { TimedReceipts } from './money/timed-receipts.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import type { OwnInspector } from './telemetry/inspect.ts'
import type { Metrics } from './telemetry/metrics.ts'

interface JobActors {
  readonly metrics: Metrics
  readonly inspector: OwnInspector
  readonly audit: AuditLog
  readonly macs: ReceiptMacs
  readonly timed: TimedReceipts
  readonly sealing: Sealing
  readonly router: PoolRouter
}

const portsOf = (list: readonly string[]) => (list.length === 0 ? [443] : list.map(Number))

/** Private jobs and the webhooks that tell of their ends. */
export function createJobs(
  parts: GatewayParts,
  { metrics, inspector, audit, macs, timed, sealing, router }: JobActors,
) {
  const { config, log, database, world = {} } = parts
  const webhookKeys = parts.webhookKeys.map(seededKey)
  const shared = { ...database, log, trail: audit, inspect: inspector.inspect, macs, timed: timed.issued }
  const webhooks = createWebhooks({
    ...shared,
    sealing,
    counted: metrics.webhookAttempt,
    keys: webhookKeys,
    ports: portsOf(config.SVC_WEBHOOK_PORTS),
    world,
  })
  const jobs = createPrivateJobs({
    ...shared,
    webhooks,
    nodes: {
      reachable: () => router.reachable(),
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
  return { webhooks, jobs, webhookKeys: webhookKeys.map(webhookPublicKey) }
}
