import type { Config } from '../config.ts'
import type { ProblemCode } from '../errors.ts'
import type { ExplainedRoute } from '../machines/rules/explain.ts'
import type { AccessDirectory } from './access.ts'
import type { Accounts } from './accounts.ts'
import type { Chat } from './chat.ts'
import type { FailedLogins } from './failed-logins.ts'
import type { GatewayLimits } from './limits.ts'
import type { Log } from './log.ts'
import type { Metrics } from './metrics.ts'
import type { PoolAdmin } from './pool-admin.ts'
import type { PoolRouter } from './router.ts'

/** `GET /readyz` in words. */
export interface GatewayHealth {
  /** `stopping`: no new work; `database`: not reachable, or its migrations are not all there. */
  readonly state: 'ready' | 'stopping' | 'database'
}

/** Why a request went where it went: one entry per time a route was chosen or none was found. */
export interface Explanation {
  readonly requestId: string
  readonly model: string
  readonly customerId: string
  readonly tries: readonly {
    readonly atMs: number
    readonly result: 'placed' | 'saturated' | 'refused'
    readonly code: ProblemCode | null
    readonly routes: readonly ExplainedRoute[]
  }[]
}

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
