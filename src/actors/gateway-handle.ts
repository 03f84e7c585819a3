import type { Database, OpenDatabase } from '../db/client.ts'
import type { Log } from '../log.ts'
import type { RouterKeys } from '../protocol/wire/nodes/agent.ts'
import type { Config } from '../settings/config.ts'
import type { AccessDirectory } from './accounts/access-directory.ts'
import type { Accounts } from './accounts/accounts.ts'
import type { AgentBundle } from './agents/agent-bundle.ts'
import type { Enrollment } from './agents/enrollment.ts'
import type { VerifyNodeKey } from './agents/node-keys.ts'
import type { NodeProofs } from './agents/node-proofs.ts'
import type { ChainReport } from './audit/audit-check.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { AuditPurge } from './audit/audit-purge.ts'
import type { Chat } from './chat/chat.ts'
import type { Explanation } from './chat/explain.ts'
import type { ConsoleFeed } from './console/console-feed.ts'
import type { ConsolePage } from './console/console-page.ts'
import type { Statecharts } from './console/statecharts.ts'
import type { PrivateJobs } from './jobs/private-jobs.ts'
import type { Webhooks, WebhookWorld } from './jobs/webhooks.ts'
import type { FailedLogins } from './limits/failed-logins.ts'
import type { GatewayLimits } from './limits/limits.ts'
import type { Mixtures } from './mixture/mixture.ts'
import type { Billing } from './money/billing.ts'
import type { Ledger } from './money/ledger.ts'
import type { Settlement } from './money/settlement.ts'
import type { SettlementView } from './money/settlement-view.ts'
import type { PoolAdmin } from './pool/pool-admin.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import type { RequestLog } from './requests/request-log.ts'
import type { GatewayHealth } from './telemetry/health.ts'
import type { Metrics } from './telemetry/metrics.ts'
import type { Tracing } from './telemetry/tracing.ts'
import type { DialIn } from './tunnels/dial-in.ts'

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
  /** null: off, as it is unless a collector is named (§18). */
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
  readonly requests: RequestLog
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
  /** Ends the chats that still run: streams hear `server_shutdown` (§1). The HTTP server must still be there. */
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
  /**
   * Clock, names, wire and chance of webhooks; default: the real ones. The clock is that of jobs, accounts and keys, too,
   * the chance that of every choice and every spread of a wait.
   */
  readonly world?: Partial<WebhookWorld>
}
