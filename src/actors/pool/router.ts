import type { NodeId } from '../../ids.ts'
import type { CacheViews } from '../../machines/placement/cache-views.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import type { CancelSignal } from '../../transport/call-signal.ts'
import type { NodeTransport } from '../../transport/transport.ts'
import type { CallOutcome, FailedCall, InFlightCall } from './nodes/in-flight-call.ts'
import type { SlotWait } from './slot-queue.ts'
import type { Ticket } from './waiting-line.ts'

/** The part of the pool that chat needs. */
export interface Router {
  /** The current table, without a wait. */
  table(): RoutingTable
  transport(nodeId: NodeId): NodeTransport | null
  /** What an operator calls it; its id where it has no name. null: unknown. */
  nodeName(nodeId: string): string | null
  /** Takes a slot: call exactly once per dispatched call, and `release` exactly once after it. */
  claim(route: Route, call: InFlightCall): void
  release(route: Route, call: InFlightCall, outcome: CallOutcome): void
  /** The first token of a call is there. */
  began(route: Route, call: InFlightCall): void
  /** What the prompt caches of the pooled models are thought to hold. */
  readonly caches: CacheViews
  /** The node has told what a call used that somebody pays for; `atBound`: as much as could still be true, or more. */
  usageReported(route: Route, atBound: boolean): void
  /** The route has done work that it was only supposed to do: from now on it is known to (§35). */
  proved(route: Route, work: Modality): void
  /** Says that a doubtful failure was the route's own. */
  strike(route: Route, failed: FailedCall): void
  /**
   * Waits until a slot of one of the model's routes is released or the table changes in its favour.
   * `full`: the queue of this model is full; `timeout`: waited `waitMs` in vain.
   */
  waitForSlot(modelId: string, ticket: Ticket, waitMs: number, signal: CancelSignal): Promise<SlotWait>
  /** Who has waited was placed. */
  servedFromQueue(modelId: string, ticket: Ticket): void
}
