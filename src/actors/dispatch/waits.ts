import { Problem } from '../../errors.ts'
import { loadLeftMs } from '../../machines/placement/loads.ts'
import { type LinePlace, patienceMs } from '../../machines/placement/slot-line.ts'
import type { Placed, Placement, PlacementRequest } from '../../machines/rules/placement.ts'
import type { Route } from '../../machines/rules/routing.ts'
import { retrySeconds } from '../../time.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { SlotWait } from '../pool/slot-queue.ts'
import { WakeWait } from '../wake/wake-wait.ts'
import { type Dispatched, type DispatchPort, ticketOf } from './dispatched.ts'
import type { Clocks, Tries } from './tries.ts'

type Saturated = Extract<Placement, { kind: 'saturated' }>
type Asleep = Extract<Placement, { kind: 'asleep' }>
interface Loading {
  readonly kind: 'loading'
  readonly route: Route
}

/** A route is there, but not now. */
export type Unplaced = Saturated | Loading | Asleep

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
  return retrySeconds(aheadMs + 1 / perMs)
}

/** Seconds until the model is likely in memory, 1 to 120. */
function retryAfterLoad({ load: { reading } }: Route): number {
  return retrySeconds(loadLeftMs(reading, null, Date.now()))
}

/** The work's result, or what ended the wait for it; the work goes on for others. */
function unlessAborted(work: Promise<boolean>, ending: CallSignal, waitMs: number) {
  return new Promise<boolean | 'aborted' | 'timeout'>((resolve) => {
    const end = (result: boolean | 'aborted' | 'timeout') => {
      clearTimeout(timer)
      ending.removeEventListener('abort', aborted)
      resolve(result)
    }
    const aborted = () => end('aborted')
    const timer = setTimeout(end, waitMs, 'timeout')
    if (ending.aborted) return aborted()
    ending.addEventListener('abort', aborted)
    void work.then(end)
  })
}

/** Who waits; it decides nothing. */
interface Waiting extends Omit<Dispatched, 'port'> {
  readonly port: Omit<DispatchPort, 'decided' | 'failed'>
}

/** The waits of one search for a route: in line for a slot, for a load, for a node to wake, for a server to take its model back. */
export class Waits {
  /** null after a wait without a slot; then a higher rank may serve. */
  queueWaitMs: number | null
  /** Until when it waits for the route that has its prompt in the cache; null: it has not waited for one. */
  private patientUntilMs: number | null = null

  constructor(
    private readonly exchange: Waiting,
    private readonly wanted: PlacementRequest,
    private readonly clocks: Clocks,
    private readonly tries: Tries,
  ) {
    this.queueWaitMs = wanted.queueWaitMs
  }

  /** For how long it may still wait for the route that has its prompt in the cache; null: no more. */
  get cacheWaitMs(): number | null {
    const nowMs = performance.now()
    if (this.patientUntilMs !== null && nowMs >= this.patientUntilMs) return null
    return nowMs < this.clocks.queueUntilMs ? this.clocks.queueUntilMs - nowMs : null
  }

  /** Waits until another look is worth it. Throws what the request is refused with, if the wait was in vain. */
  until(unplaced: Unplaced): Promise<void> {
    switch (unplaced.kind) {
      case 'loading':
        return this.waitForLoad(unplaced)
      case 'asleep':
        return this.waitForWake(unplaced)
      case 'saturated':
        return this.wait(unplaced)
    }
  }

  /** Waits until a slot may be free. Throws if none becomes free in time. */
  private async wait({ routes, awaits }: Saturated): Promise<void> {
    const { exchange, tries } = this
    const { config } = exchange.port
    const waited = await (awaits === null ? this.waitInLine(this.clocks.queueUntilMs, null) : this.waitForRoute(awaits))
    if (waited === 'slot' || waited === 'aborted') return
    if (awaits !== null) {
      // The wait was unsuccessful: from now on it takes any open route.
      this.patientUntilMs = 0
      return
    }
    if (this.queueWaitMs !== null && exchange.ended() === null) {
      this.queueWaitMs = null
      return
    }
    if (tries.anyFailed) throw tries.givenUp()
    const waiting = waited === 'full' ? config.SVC_QUEUE_WAITING_MAX : 0
    throw new Problem('capacity_exhausted', {
      retryAfterSeconds: retryAfterFull(routes, waiting, config.SVC_QUEUE_WAIT_MS),
    })
  }

  /** At most for its patience, and that only once. */
  private waitForRoute(awaits: NonNullable<Saturated['awaits']>): Promise<SlotWait> {
    const { profileId, load } = awaits.route
    this.patientUntilMs ??= performance.now() + patienceMs(awaits)
    const untilMs = Math.min(this.patientUntilMs, this.clocks.queueUntilMs)
    return this.waitInLine(untilMs, { profileId, reading: load.reading, ownMs: awaits.cost.ownMs })
  }

  private async waitInLine(untilMs: number, awaits: LinePlace | null): Promise<SlotWait> {
    const { exchange, wanted } = this
    const { command, ending, port } = exchange
    command.ticket ??= ticketOf(command)
    command.ticket.awaits = awaits
    const fromMs = performance.now()
    const waited = await port.router.waitForSlot(wanted.modelId, command.ticket, untilMs - fromMs, ending)
    exchange.queueMs += performance.now() - fromMs
    return waited
  }

  /** Until a model is in memory that another request has loaded, or was not to be. Throws where that takes too long. */
  private async waitForLoad({ route }: Loading): Promise<void> {
    const { exchange, wanted, tries } = this
    const { config, router } = exchange.port
    const { command, ending } = exchange
    command.ticket ??= ticketOf(command)
    command.ticket.awaits = null
    command.ticket.loading = true
    const fromMs = performance.now()
    const waited = await router.waitForSlot(wanted.modelId, command.ticket, this.clocks.coldLeftMs, ending)
    command.ticket.loading = false
    const ms = performance.now() - fromMs
    exchange.loadWaitMs += ms
    this.clocks.loadTook(ms, exchange.callsUntilMs)
    if (waited === 'slot' || waited === 'aborted') return
    if (tries.anyFailed) throw tries.givenUp()
    const retryAfterSeconds = retryAfterLoad(route)
    if (waited === 'timeout') throw new Problem('model_loading', { retryAfterSeconds })
    throw new Problem('capacity_exhausted', {
      retryAfterSeconds: Math.max(
        retryAfterSeconds,
        retryAfterFull([route], config.SVC_QUEUE_WAITING_MAX, config.SVC_QUEUE_WAIT_MS),
      ),
    })
  }

  /** Until a sleeping node is awake, or something else is there that serves. Throws where that takes too long. */
  private async waitForWake({ route }: Asleep): Promise<void> {
    const { exchange, wanted, tries, clocks } = this
    const { command, ending, port } = exchange
    command.ticket ??= ticketOf(command)
    clocks.waking ??= new WakeWait(port)
    const fromMs = performance.now()
    const waited = await clocks.waking.wait(route, wanted.modelId, command.ticket, ending)
    const ms = performance.now() - fromMs
    exchange.loadWaitMs += ms
    exchange.wakeWaitMs += ms
    clocks.ownClock(ms, exchange.callsUntilMs)
    // A node that fell asleep under a try is as good as new once it is awake.
    tries.forget(route.profileId)
    if (waited === 'slot' || waited === 'aborted') return
    throw tries.anyFailed ? tries.givenUp() : clocks.waking.refusal(route, waited)
  }

  /** The model's server has let it go and is told to take it back. Throws where it would not and no other route is left. */
  async rouse({ route }: Placed): Promise<void> {
    const { exchange, tries, clocks } = this
    const { rouser } = exchange.port
    const { command, ending } = exchange
    command.ticket ??= ticketOf(command)
    command.ticket.rousing = true
    const fromMs = performance.now()
    const roused = await unlessAborted(rouser.rouse(route), ending, clocks.coldLeftMs)
    command.ticket.rousing = false
    const ms = performance.now() - fromMs
    exchange.loadWaitMs += ms
    clocks.loadTook(ms, exchange.callsUntilMs)
    if (roused === true || roused === 'aborted') return
    if (roused === 'timeout') throw new Problem('model_loading', { retryAfterSeconds: retryAfterLoad(route) })
    if (!tries.failed(route, { code: 'upstream_error', failover: true }) || this.tries.spent) throw tries.givenUp()
    this.tries.count++
  }
}
