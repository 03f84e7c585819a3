import type { ProblemCode } from '../../errors.ts'
import type { Work } from '../../machines/placement/reading.ts'
import type { Placement, PlacementRequest } from '../../machines/rules/placement.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import type { PromptEstimate } from '../../protocol/chat/token-estimate.ts'
import type { Config } from '../../settings/config.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { Access } from '../accounts/access.ts'
import type { Rouser } from '../loading/rouser.ts'
import type { Operation } from '../operations/operation.ts'
import type { Router } from '../pool/router.ts'
import { Ticket } from '../pool/waiting-line.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import type { WakePort } from '../wake/wake-wait.ts'

/** The decision for one try, kept for `explain`. */
export interface Decision {
  readonly table: RoutingTable
  readonly request: PlacementRequest
  readonly placement: Placement
}

/** The part of a client's request that the search for a route reads. */
export interface DispatchCommand {
  readonly operation: Pick<Operation, 'envelope'>
  readonly access: Pick<Access, 'customerId' | 'keyId' | 'policy'>
  readonly body: { readonly model: string }
  /** `performance.now()` */
  readonly startedMs: number
  /** Aborts when the client is gone. */
  readonly signal: AbortSignal
  /** The request's place in the queue for a slot; absent until it waits. */
  ticket?: Ticket | undefined
}

export interface DispatchPort<C extends DispatchCommand = DispatchCommand> {
  readonly config: Config
  readonly router: Router
  readonly waker: WakePort['waker']
  readonly rouser: Pick<Rouser, 'rouse'>
  /** A call of a node failed, or a line of its stream was no JSON (`malformed_line`) and was passed over. */
  readonly failed: (code: string) => void
  /** `again`: an earlier decision exists for this request; `ofModel`: also for this model. */
  readonly decided: (command: C, decision: Decision, again: boolean, ofModel?: boolean) => void
}

/** The request to dispatch. */
export interface Dispatched<C extends DispatchCommand = DispatchCommand> {
  readonly port: DispatchPort<C>
  readonly command: C
  /** Aborted when the client leaves or the gateway stops; every wait of the request then ends. */
  readonly ending: CallSignal
  readonly callsUntilMs: number
  /** The estimated work of the next try on its route; null if there was no choice. */
  work: Work | null
  /** Time spent waiting for slots, ms. */
  queueMs: number
  /** Time spent waiting for a model to load or a node to wake, ms. */
  loadWaitMs: number
  /** The part of it spent waiting for nodes to wake, which has a limit of its own, ms. */
  wakeWaitMs: number
  tryFailed(code: ProblemCode): void
  /** Checked after every wait: why no further node is called; null: the request still runs. */
  ended(): AttemptFailure | null
  promptEstimate(): PromptEstimate
}

export function ticketOf({ access }: Pick<DispatchCommand, 'access'>): Ticket {
  return new Ticket({ customerId: access.customerId, keyId: access.keyId ?? '', priority: access.policy.priority })
}
