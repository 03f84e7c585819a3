import { Problem, type ProblemCode } from '../../errors.ts'
import { type Placement, type PlacementRequest, place } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { Config } from '../../settings/config.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { Router } from '../pool/router.ts'
import type { AttemptFailure } from './attempt.ts'
import type { ChatCommand } from './chat-command.ts'
import { Tries } from './tries.ts'

/** What was decided for one try, kept for `explain`. */
export interface Decision {
  readonly table: RoutingTable
  readonly request: PlacementRequest
  readonly placement: Placement
}

export interface DispatchPort {
  readonly config: Config
  readonly router: Router
  readonly random: () => number
  /** A call of a node failed, or a line of its stream was no JSON (`malformed_line`) and was passed over. */
  readonly failed: (code: string) => void
  readonly decided: (command: ChatCommand, decision: Decision, again: boolean) => void
}

/** What is dispatched. */
export interface Dispatched {
  readonly port: DispatchPort
  readonly command: ChatCommand
  /** Aborted when the client leaves or the gateway stops: whoever waits for something ends. */
  readonly ending: CallSignal
  readonly callsUntilMs: number
  /** What it has waited for slots, so far. */
  queueMs: number
  tryFailed(code: ProblemCode): void
  /** Why no node is called for it any more, asked after every wait; null: it still runs. */
  ended(): AttemptFailure | null
}

export interface TryBudget {
  /** Until the first chunk; beyond it the route is given up. */
  readonly firstChunkMs: number
}

/**
 * Seconds until a slot is likely free, 1 to 120: the mean duration of a call over the model's slots, after those who
 * wait now, of whom none waits longer than `waitMs`.
 */
function retryAfterFull(routes: readonly Route[], waiting: number, waitMs: number): number {
  let perMs = 0
  for (const { load, slotsTotal } of routes) {
    if (load.durationEwmaMs !== null && load.durationEwmaMs > 0) perMs += (slotsTotal ?? 1) / load.durationEwmaMs
  }
  if (perMs === 0) return 1
  const aheadMs = Math.min(waiting / perMs, waitMs)
  return Math.min(120, Math.max(1, Math.ceil((aheadMs + 1 / perMs) / 1_000)))
}

/** What a caller hears when no route may or can serve. */
export function refusal(command: ChatCommand, code: ProblemCode): Problem {
  if (code === 'no_route_available') return new Problem(code, { retryAfterSeconds: 5 })
  if (code === 'node_pin_forbidden') return new Problem(code, { param: 'svc.node_id' })
  if (code === 'model_not_found' && command.body.svc?.model_profile_id !== undefined) {
    return new Problem(code, { param: 'svc.model_profile_id' })
  }
  return new Problem(code, { param: code === 'context_length_exceeded' ? 'messages' : 'model' })
}

/**
 * Places and tries routes until one answers (§5, failover): at most `SVC_FAILOVER_ROUTES_MAX` others, none
 * when pinned, all within one deadline, a short bounded wait where every route is full. `attempt` resolves with the
 * answer, or with why this route gave none.
 */
export async function dispatch<T extends object>(
  exchange: Dispatched,
  wanted: PlacementRequest,
  attempt: (route: Route, budget: TryBudget) => Promise<T | { readonly failure: AttemptFailure }>,
): Promise<T> {
  const { port, command } = exchange
  const { config, router } = port
  const tries = new Tries()
  const deadlineMs = command.startedMs + config.SVC_TTFT_TIMEOUT_MS
  const queueUntilMs = Math.min(performance.now() + config.SVC_QUEUE_WAIT_MS, exchange.callsUntilMs)
  const most = wanted.pin === null ? config.SVC_FAILOVER_ROUTES_MAX : 0
  for (let looks = 0; ; looks++) {
    const ended = exchange.ended()
    if (ended !== null) throw tries.ended(ended)
    const table = router.table()
    const request = looks === 0 ? wanted : anotherLook(wanted, tries)
    const placement = place(table, request, port.random)
    port.decided(command, { table, request, placement }, looks > 0)
    if (placement.kind === 'refused') throw tries.anyFailed ? tries.givenUp() : refusal(command, placement.code)
    if (placement.kind === 'saturated') {
      const waitsFromMs = performance.now()
      const waited = await router.waitForSlot(wanted.modelId, queueUntilMs - waitsFromMs, exchange.ending)
      exchange.queueMs += performance.now() - waitsFromMs
      if (waited === 'slot' || waited === 'aborted') continue
      if (tries.anyFailed) throw tries.givenUp()
      const waiting = waited === 'full' ? config.SVC_QUEUE_WAITING_MAX : 0
      const retryAfterSeconds = retryAfterFull(placement.routes, waiting, config.SVC_QUEUE_WAIT_MS)
      throw new Problem('capacity_exhausted', { retryAfterSeconds })
    }
    tries.tried.add(placement.route.profileId)
    const spent = tries.tried.size > most
    const leftMs = deadlineMs - performance.now()
    const patienceMs = Math.max(config.SVC_FAILOVER_FIRST_CHUNK_MS, 4 * (placement.route.load.ttftEwmaMs ?? 0))
    const patient = spent || placement.considered === 1
    const result = await attempt(placement.route, { firstChunkMs: patient ? leftMs : Math.min(leftMs, patienceMs) })
    if (!('failure' in result)) {
      tries.served()
      return result
    }
    const { failure } = result
    exchange.tryFailed(failure.code)
    // A call that ended because its client left is no failure of the node.
    if (!command.signal.aborted) port.failed(failure.code)
    if (!tries.failed(failure) || spent) throw tries.givenUp()
    if (performance.now() >= deadlineMs) throw tries.givenUp('upstream_timeout')
  }
}

/** A copy: the first decision is kept for `explain`, and the set grows with every try. */
const anotherLook = (wanted: PlacementRequest, { tried, contextAbove }: Tries): PlacementRequest => ({
  ...wanted,
  exclude: new Set(tried),
  contextAbove,
  nowMs: Date.now(),
})
