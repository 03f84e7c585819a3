import type { Clock } from '../clock.ts'
import type { Database, OpenDatabase } from '../db/client.ts'
import type { ServerLooks } from '../discovery/server-looks.ts'
import type { MemoryBudget } from '../host/budget.ts'
import type { LogMemory } from '../host/log-memory.ts'
import type { Log } from '../log.ts'
import type { AdminRoute } from '../machines/rules/admin-route.ts'
import type { AlertReadings, Loads, Moved, Polls, Totals } from '../protocol/wire/admin/processes.ts'
import type { RouterKeys } from '../protocol/wire/nodes/agent.ts'
import type { Config } from '../settings/config.ts'
import type { ListenAddress } from '../settings/listen-address.ts'
import type { AccessDirectory } from './accounts/access-directory.ts'
import type { Accounts } from './accounts/accounts.ts'
import type { Callers } from './accounts/callers.ts'
import type { AgentBundle } from './agents/agent-bundle.ts'
import type { Enrollment } from './agents/enrollment.ts'
import type { Joining } from './agents/joining.ts'
import type { NodeAlarmBook } from './agents/node-alarms.ts'
import type { VerifyNodeKey } from './agents/node-keys.ts'
import type { NodeProofs } from './agents/node-proofs.ts'
import type { Payees } from './agents/payees.ts'
import type { RouterIdentity } from './agents/router-identity.ts'
import type { ChainReport } from './audit/audit-check.ts'
import type { AuditContext } from './audit/audit-context.ts'
import type { AuditLog } from './audit/audit-log.ts'
import type { AuditPurge } from './audit/audit-purge.ts'
import type { RowsNamed } from './audit/row-naming.ts'
import type { Chat } from './chat/chat.ts'
import type { AlertWatch } from './console/alert-watch.ts'
import type { ConsoleFeed } from './console/console-feed.ts'
import type { PageFiles } from './console/console-page.ts'
import type { ConsoleSeats } from './console/console-seats.ts'
import type { Statecharts } from './console/statecharts.ts'
import type { Explanation } from './explain/decision-log.ts'
import type { PrivateJobs } from './jobs/private-jobs.ts'
import type { Webhooks, WebhookWorld } from './jobs/webhooks.ts'
import type { FailedLogins } from './limits/failed-logins.ts'
import type { GatewayLimits } from './limits/limits.ts'
import type { ModelLogs } from './loading/model-logs.ts'
import type { ModelWishes } from './loading/model-wishes.ts'
import type { BooksCheck } from './log/books-check.ts'
import type { Cosigning } from './log/cosigning.ts'
import type { NamedFork } from './log/fork.ts'
import type { PublicLog } from './log/public-log.ts'
import type { Sequencer } from './log/sequencer.ts'
import type { Mixtures } from './mixture/mixture.ts'
import type { Billing } from './money/billing.ts'
import type { Ledger } from './money/ledger.ts'
import type { Settlement } from './money/settlement.ts'
import type { SettlementView } from './money/settlement-view.ts'
import type { Admins } from './operators/admins.ts'
import type { Oidc } from './operators/oidc.ts'
import type { Sessions } from './operators/sessions.ts'
import type { MemoryPlanner } from './planning/memory-planner.ts'
import type { ModelDemands } from './planning/model-demands.ts'
import type { PoolAdmin } from './pool/pool-admin.ts'
import type { PoolRouter } from './pool/pool-router.ts'
import type { ModelCopies } from './pulls/model-copies.ts'
import type { NodePulls } from './pulls/node-pulls.ts'
import type { RequestLog } from './requests/request-log.ts'
import type { ProcessPlace } from './siblings/process-place.ts'
import type { Siblings } from './siblings/siblings.ts'
import type { GatewayHealth } from './telemetry/health.ts'
import type { Metrics } from './telemetry/metrics.ts'
import type { Tracing } from './telemetry/tracing.ts'
import type { NodeTokens } from './tokens/node-tokens.ts'
import type { DialIn } from './tunnels/dial-in.ts'
import type { NodeSleeps } from './wake/node-sleeps.ts'

export interface OwnFacts {
  loads(): Loads
  moved(sinceMs: number): Moved
  totals(): Promise<Totals>
  readings(): Promise<AlertReadings>
  /** What this process has polled for its siblings after this number; null: it does not poll for them. */
  polls(since: number): Polls | null
}

/** Everything that HTTP may do with the running gateway. */
export interface GatewayHandle {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly router: PoolRouter
  readonly access: Omit<AccessDirectory, 'start' | 'stop' | 'callers'>
  /** Who may call the administration. */
  readonly callers: Pick<Callers, 'find' | 'known' | 'use' | 'isGone'>
  readonly failedLogins: FailedLogins
  readonly limits: GatewayLimits
  /** What this process keeps in memory for its customers. */
  readonly memory: MemoryBudget
  readonly accounts: Accounts
  readonly admins: Admins
  /** null: no provider is named. */
  readonly oidc: Oidc | null
  /** Who is signed in to the console. */
  readonly sessions: Sessions
  readonly audit: AuditLog
  readonly auditPurge: AuditPurge
  nameRows(audit: AuditContext): Promise<RowsNamed>
  /** Refuses with `invalid_state` while a purge runs. */
  checkAuditChains(): Promise<ChainReport>
  readonly pool: PoolAdmin
  readonly modelWishes: ModelWishes
  readonly modelLogs: ModelLogs
  /** Operators send nodes to sleep, and wake them. */
  readonly nodeSleeps: NodeSleeps
  /** Operators have agents fetch models. */
  readonly nodePulls: NodePulls
  /** Operators have models copied from one node to another. */
  readonly modelCopies: ModelCopies
  /** How much this process is asked for each model. */
  readonly demands: ModelDemands
  /** Which model belongs where (§37). */
  readonly planner: MemoryPlanner
  readonly enrollment: Enrollment
  readonly joining: Joining
  /** For model servers on the network that an operator names. */
  readonly serverLooks: ServerLooks
  readonly verifyNodeKey: VerifyNodeKey
  readonly agentBundle: AgentBundle
  readonly routerKeys: RouterKeys
  /** By which this gateway signs to nodes. */
  readonly routerIdentity: Pick<RouterIdentity, 'publicKeys' | 'signAs'>
  readonly chat: Chat
  readonly mixtures: Mixtures
  /** Tokens as the nodes count them. */
  readonly nodeTokens: NodeTokens
  /** null unless the operator names a collector (§18). */
  readonly tracing: Tracing | null
  readonly statecharts: Statecharts
  readonly consoles: ConsoleFeed
  /** What is wrong, by the rules of ops/alerts.yaml. */
  readonly alerts: Pick<AlertWatch, 'current'>
  readonly consoleSeats: ConsoleSeats
  readonly consolePage: PageFiles
  readonly verifyPage: PageFiles
  /** The documents, as pages. */
  readonly manual: PageFiles
  /** Nodes that dial in, and the other gateways that hold their tunnels. */
  readonly dialIn: DialIn
  readonly jobs: PrivateJobs
  readonly webhooks: Webhooks
  /** The keys `whpk_…` with which receivers check signatures, newest first. */
  readonly webhookKeys: readonly string[]
  /** What anybody may read of the log (§31). */
  readonly publicLog: PublicLog
  readonly sequencer: Pick<Sequencer, 'catchUp' | 'fork' | 'exposed' | 'holds'>
  readonly cosigning: Pick<Cosigning, 'round'>
  /** Reads everything, in one view of the database. */
  checkBooks(): Promise<BooksCheck>
  /** Refuses with `invalid_state` where the log leads on. */
  nameFork(audit: AuditContext): Promise<NamedFork>
  readonly ledger: Ledger
  readonly billing: Billing
  readonly settlement: Settlement
  /** The view is at most 15 s old. */
  readonly settlementView: () => Promise<SettlementView>
  readonly nodeProofs: Pick<NodeProofs, 'check'>
  readonly payees: Payees
  readonly nodeAlarms: NodeAlarmBook
  /** For reads alone. Writes go through an actor. */
  readonly db: Database
  readonly requests: Pick<
    RequestLog,
    'write' | 'find' | 'recent' | 'page' | 'traffic' | 'firstTokens' | 'failures' | 'days'
  >
  /** null if the request was never seen, or is no longer among the last 10 000. */
  explain(requestId: string): Explanation | null
  /** `{base_url}` without a trailing slash. It contains the port on which the gateway really listens. */
  readonly baseUrl: () => string
  /** Where it listens: with the ports on which it really does. */
  doors(): readonly ListenAddress[]
  /** Keyed hash of a client's address. Logs, limits and audits may contain only this hash. */
  hashAddress(address: string): string
  /** The other processes of this gateway, which are asked what they know. */
  readonly siblings: Siblings
  /** What this process alone knows, for its siblings. */
  readonly own: OwnFacts
  /** This process ends: each answer says that its connection is over. */
  leaving(): boolean
  /** Asks the database at most once a second. */
  health(): Promise<GatewayHealth>
}

export interface RunningGateway extends GatewayHandle {
  /**
   * Sets the port on which the gateway really listens. Then it looks for runtimes and waits until every node was asked
   * once.
   */
  listening(port: number): Promise<void>
  /** The same of one of several processes, which are asked for their port later. */
  listensOn(port: number): void
  /** From now on this process looks after what runs on its own machine: discovery and the demo. */
  lead(): Promise<void>
  /** Another process does; what runs here goes on until the stop. */
  follow(): void
  /** `/readyz` says so from now on. */
  beginStop(): void
  /** From now on each answer says that its connection is over. */
  beginLeave(): void
  /** Consoles never end by themselves, and the stop waits for what runs. Call it when no new one can come. */
  endConsoles(): void
  /** Nodes that dialled in move to another gateway of the pool, if there is one. The HTTP server must still run. */
  handOver(): Promise<void>
  /**
   * Ends the tunnels when no request runs any more, because Bun's server does not stop while a WebSocket is open
   * (seen).
   */
  endTunnels(): void
  /** Ends the chats that still run. Their streams get `server_shutdown` (§1). The HTTP server must still run. */
  endCalls(): Promise<void>
  /** Ends everything that still runs, then the actors in the reverse order of their start. */
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
  /** What the approval policy says of an action. */
  readonly policyOf: (action: string) => AdminRoute
  /** Ed25519 seeds, as `readSeed` takes them. */
  readonly routerKeys: readonly string[]
  readonly webhookKeys: readonly string[]
  readonly logKeys: readonly string[]
  /** What outlives a database that is put back; null: nothing here does. */
  readonly logMemory: LogMemory | null
  /** True if the role tokens of the first start are in the database. */
  readonly roleTokensInDatabase: boolean
  /** Absent: the only process of this gateway. */
  readonly place?: ProcessPlace
  /**
   * Clock, names, wire and chance of webhooks; default: the real ones. The clock is that of jobs, accounts and keys, too,
   * the chance that of every choice and every spread of a wait.
   */
  readonly world?: Partial<WebhookWorld> & {
    /** Of the watch over alerts. */
    readonly alertClock?: Clock
  }
}
