import type { InspectionEvent } from 'xstate'
import type { Database } from '../../db/client.ts'
import type { PoolRows } from '../../db/queries/pool/pool.ts'
import type { NodeId } from '../../ids.ts'
import type { Log } from '../../log.ts'
import type { NodeState, Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { RuntimeModule } from '../../runtimes/runtime.ts'
import type { Config } from '../../settings/config.ts'
import type { NodeTransport, TransportFailure } from '../../transport/transport.ts'
import type { AgentAccess } from './node-connection.ts'
import type { NodeView } from './node-view.ts'
import { RunningRouter } from './running-router.ts'

/** A call that occupies a slot. The router tells it when its node went offline or was revoked. */
export interface InFlightCall {
  nodeLost(): void
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
      /** Time to the first content. null if the call was not a stream, so that nobody knows. */
      readonly ttftMs: number | null
      readonly durationMs: number
      readonly completionTokens: number
    }
  /**
   * Counts toward passive ejection (§8). `keyId` is there because the requests of one bad key must not eject a route.
   */
  | ({
      readonly kind: 'failed' /** Whether the failure counts is decided later, by `strike`. */
      readonly doubtful?: boolean
    } & FailedCall)
  /** The client left, the answer was a 4xx, or the gateway stops. This says nothing about the route. */
  | { readonly kind: 'neutral' }

/** The part of the pool that chat needs. */
export interface Router {
  /** The current table, without a wait. */
  table(): RoutingTable
  transport(nodeId: NodeId): NodeTransport | null
  /** Takes a slot: call exactly once per dispatched call, and `release` exactly once after it. */
  claim(route: Route, call: InFlightCall): void
  release(route: Route, call: InFlightCall, outcome: CallOutcome): void
  /** Says that a doubtful failure was the route's own. */
  strike(route: Route, failed: FailedCall): void
  /**
   * Waits until a slot of one of the model's routes is released or the table changes in its favour.
   * `full`: the queue of this model is full; `timeout`: waited `waitMs` in vain; an abort rejects with the signal's reason.
   */
  waitForSlot(modelId: string, waitMs: number, signal: AbortSignal): Promise<'slot' | 'full' | 'timeout'>
}

/** The whole pool, for its owner and for the admin routes. */
export interface PoolRouter extends Router {
  /** Takes over the rows of the database. Call it at the start and after each change of nodes or catalogue entries. */
  rowsChanged(rows: PoolRows): void
  /** Resolves when each node of the first rows has answered or failed once, or after a bound. */
  whenServing(): Promise<void>
  nodes(): readonly NodeView[]
  counts(): {
    readonly nodes: Readonly<Partial<Record<NodeState, number>>>
    readonly inFlight: number
    readonly queued: number
  }
  /** Resolves when the node was asked, or at once for an unknown node. */
  pollNow(nodeId: NodeId): Promise<void>
  /**
   * The names by which policies know the model that a node calls `upstreamModelId`: id and aliases of its entry, or
   * the name itself.
   */
  namesOf(upstreamModelId: string): readonly string[]
  /** True if the last rows contain the node and it is not revoked. */
  knows(nodeId: NodeId): boolean
  /** The node has dialled in and proved its identity. It is asked at once, and one good answer is enough. */
  dialled(nodeId: NodeId): void
  /** The node's last tunnel has closed, so it gets no new work. */
  hungUp(nodeId: NodeId): void
  /** The node says that something has changed. The message is not signed, so the node is asked. */
  hinted(nodeId: NodeId): void
  /** Calls the listener with every further table. */
  subscribe(listener: (table: RoutingTable) => void): () => void
  /** Ends polls and writes. Calls that still run hear that their node is lost. */
  stop(): Promise<void>
}

export interface RouterOptions {
  readonly config: Config
  readonly db: Database
  readonly log: Log
  /** The default is the whole registry. */
  readonly modules?: readonly RuntimeModule[]
  /** Decrypts `nodes.api_key_sealed`. null if no key fits; then the gateway does not call the node. */
  readonly openSecret: (sealed: Uint8Array) => string | null
  /** Without it the gateway does not call nodes of the kind `agent`. */
  readonly agents?: AgentAccess
  readonly inspect?: (event: InspectionEvent) => void
  /** Uniform in [0, 1). */
  readonly random?: () => number
}

export function createRouter(options: RouterOptions): PoolRouter {
  return new RunningRouter(options)
}
