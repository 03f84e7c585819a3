import type { NodeId } from '../../ids.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeTransport, TransportFailure } from '../../transport/transport.ts'
import type { SlotWait } from './slot-queue.ts'

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
   * `full`: the queue of this model is full; `timeout`: waited `waitMs` in vain.
   */
  waitForSlot(modelId: string, waitMs: number, signal: CancelSignal): Promise<SlotWait>
}
