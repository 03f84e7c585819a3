import type { InspectionEvent } from 'xstate'
import type { Database } from '../../db/client.ts'
import type { PoolRows } from '../../db/queries/pool/pool.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { CacheViews } from '../../machines/placement/cache-views.ts'
import type { Work } from '../../machines/placement/reading.ts'
import type { NodeState, Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { RuntimeModule } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import type { NodeTransport, TransportFailure } from '../../transport/transport.ts'
import type { AgentAccess } from './node-connection.ts'
import type { NodeView } from './node-view.ts'
import { RunningRouter } from './running-router.ts'
import type { Ticket } from './slot-queue.ts'

/** A call that occupies a slot; the router tells it when its node went offline or was revoked. */
export interface InFlightCall {
  nodeLost(): void
  /** What it was thought to cost its route; null: there was no choice of routes. */
  readonly work: Work | null
  /** Its first token will be seen. */
  readonly timed: boolean
}

export interface FailedCall {
  readonly cause: 'connect' | 'server_error' | 'timeout'
  readonly transport?: TransportFailure
  readonly keyId: string
}

/** How a call ended, as far as the route's health and speed are concerned. */
export type CallOutcome =
  | {
      readonly kind: 'ok'
      /** To the first content; null: the call was not asked as a stream, and nobody knows. */
      readonly ttftMs: number | null
      readonly durationMs: number
      readonly completionTokens: number
      /** Of the prompt, as the runtime found them in its cache; null: it does not say. */
      readonly cachedTokens: number | null
    }
  /** Counts toward passive ejection (§8); `keyId` because one poison key must eject nobody. */
  | ({
      readonly kind: 'failed' /** Whether it counts is said later, by `strike`. */
      readonly doubtful?: boolean
    } & FailedCall)
  /** Client gone, 4xx, shut-down: says nothing about the route. */
  | { readonly kind: 'neutral' }

/** What chat needs of the pool. */
export interface Router {
  /** The current table; never waits. */
  table(): RoutingTable
  transport(nodeId: NodeId): NodeTransport | null
  /** Takes a slot: call exactly once per dispatched call, and `release` exactly once after it. */
  claim(route: Route, call: InFlightCall): void
  release(route: Route, call: InFlightCall, outcome: CallOutcome): void
  /** The first token of a call is there. */
  began(route: Route, call: InFlightCall): void
  /** What the prompt caches of the pooled models are thought to hold. */
  readonly caches: CacheViews
  /** A doubtful failure was the route's own. */
  strike(route: Route, failed: FailedCall): void
  /**
   * Waits until a slot of one of the model's routes is released or the table changes in its favour.
   * `full`: the queue of this model is full; `timeout`: waited `waitMs` in vain; an abort rejects with the signal's reason.
   */
  waitForSlot(
    modelId: string,
    ticket: Ticket,
    waitMs: number,
    signal: AbortSignal,
  ): Promise<'slot' | 'full' | 'timeout'>
  /** Who has waited was placed. */
  servedFromQueue(modelId: string, ticket: Ticket): void
}

/** The whole pool, for who runs it and for the admin routes. */
export interface PoolRouter extends Router {
  /** What the database says now; call it at the start and after each change of nodes or catalogue entries. */
  rowsChanged(rows: PoolRows): void
  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  whenServing(): Promise<void>
  nodes(): readonly NodeView[]
  counts(): {
    readonly nodes: Readonly<Partial<Record<NodeState, number>>>
    readonly inFlight: number
    readonly queued: number
  }
  /** Resolves when the node was asked; at once for an unknown one. */
  pollNow(nodeId: NodeId): Promise<void>
  /** The names by which policies know what a node calls `upstreamModelId`: its entry's id and aliases, or itself. */
  namesOf(upstreamModelId: string): readonly string[]
  /** A node that is not revoked, as far as the rows read last say. */
  knows(nodeId: NodeId): boolean
  /** The node has dialled in and proved who it is: it is asked at once, and one good answer is enough. */
  dialled(nodeId: NodeId): void
  /** Its last tunnel is gone: no new work from now on. */
  hungUp(nodeId: NodeId): void
  /** It says that something has changed; unsigned, so it is asked. */
  hinted(nodeId: NodeId): void
  /** Called with every table from the next one on. */
  subscribe(listener: (table: RoutingTable) => void): () => void
  /** Ends polls and writes; calls that are left are told that their node is lost. */
  stop(): Promise<void>
}

export interface RouterOptions {
  readonly config: Config
  readonly db: Database
  readonly log: Log
  /** Default: all of the registry. */
  readonly modules?: readonly RuntimeModule[]
  /** Opens what `nodes.api_key_sealed` holds; null when no key does: the node is then not reached. */
  readonly openSecret: (sealed: Uint8Array) => string | null
  /** Without it nodes of the kind `agent` are not reached. */
  readonly agents?: AgentAccess
  readonly inspect?: (event: InspectionEvent) => void
  /** Uniform in [0, 1). */
  readonly random?: () => number
}

export function createRouter(options: RouterOptions): PoolRouter {
  return new RunningRouter(options)
}
