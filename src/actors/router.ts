import type { NodeId } from '../ids.ts'
import type { Route, RoutingTable } from '../machines/routing.ts'
import type { NodeTransport, TransportFailure } from './transport/transport.ts'

/** A call that occupies a slot; the router tells it when its node went offline or was revoked. */
export interface InFlightCall {
  nodeLost(): void
}

/** How a call ended, as far as the route's health and speed are concerned. */
export type CallOutcome =
  | { readonly kind: 'ok'; readonly ttftMs: number; readonly durationMs: number; readonly completionTokens: number }
  /** Counts toward passive ejection (decisions §8); `keyId` because one poison key must eject nobody. */
  | { readonly kind: 'failed'; readonly cause: 'connect' | 'server_error' | 'timeout'; readonly transport?: TransportFailure; readonly keyId: string }
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
  /**
   * Waits until a slot of one of the model's routes is released or the table changes in its favour.
   * `full`: the queue of this model is full; `timeout`: waited `waitMs` in vain; an abort rejects with the signal's reason.
   */
  waitForSlot(modelId: string, waitMs: number, signal: AbortSignal): Promise<'slot' | 'full' | 'timeout'>
}
