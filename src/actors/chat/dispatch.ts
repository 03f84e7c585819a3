import { Problem, type ProblemCode } from '../../errors.ts'
import { loadLeftMs } from '../../machines/placement/loads.ts'
import type { Work } from '../../machines/placement/reading.ts'
import { type LinePlace, patienceMs } from '../../machines/placement/slot-line.ts'
import { placementRefusal } from '../../machines/refusals/placement-refusal.ts'
import {
  type Placed,
  type Placement,
  type PlacementRequest,
  place,
  type RefusalCode,
  takePlace,
} from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { PromptEstimate } from '../../protocol/chat/token-estimate.ts'
import type { Config } from '../../settings/config.ts'
import { retrySeconds } from '../../time.ts'
import type { CallSignal } from '../../transport/call-signal.ts'
import type { Rouser } from '../loading/rouser.ts'
import type { Router } from '../pool/router.ts'
import { type SlotWait, Ticket } from '../pool/slot-queue.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import { type WakePort, WakeWait } from '../wake/wake-wait.ts'
import type { ChatCommand } from './chat-command.ts'
import { Clocks, Tries } from './tries.ts'

/** The decision for one try, kept for `explain`. */
export interface Decision {
  readonly table: RoutingTable
  readonly request: PlacementRequest
  readonly placement: Placement
}

type Judged = Pick<Decision, 'table' | 'request'>

export interface DispatchPort {
  readonly config: Config
  readonly router: Router
  readonly waker: WakePort['waker']
  readonly rouser: Pick<Rouser, 'rouse'>
  /** A call of a node failed, or a line of its stream was no JSON (`malformed_line`) and was passed over. */
  readonly failed: (code: string) => void
  /** `again`: the request was decided on before; `ofModel`: for this model, too. */
  readonly decided: (command: ChatCommand, decision: Decision, again: boolean, ofModel?: boolean) => void
}

/** The request to dispatch. */
export interface Dispatched {
  readonly port: DispatchPort
  readonly command: ChatCommand
  /** Aborted when the client leaves or the gateway stops; every wait of the request then ends. */
  readonly ending: CallSignal
  readonly callsUntilMs: number
  /** The estimated work of the next try on its route; null if there was no choice. */
  work: Work | null
  /** Its wait for slots so far. */
  queueMs: number
  /** And for a model that another request had loaded, or a node to wake. */
  loadWaitMs: number
  /** Of these, for nodes to wake: that wait has a clock of its own. */
  wakeWaitMs: number
  tryFailed(code: ProblemCode): void
  /** Why no node is called for it any more, asked after every wait; null: it still runs. */
  ended(): AttemptFailure | null
  promptEstimate(): PromptEstimate
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
  return retrySeconds(aheadMs + 1 / perMs)
}

/** Seconds until the model is likely in memory, 1 to 120. */
function retryAfterLoad({ load: { reading } }: Route): number {
  return retrySeconds(loadLeftMs(reading, null, Date.now()))
}

/** The refusal when no route may or can serve. */
export function refusal({ operation }: ChatCommand, { table, request }: Judged, code: RefusalCode): Problem {
  const list = operation.envelope === 'ollama' ? '/api/tags' : undefined
  return placementRefusal(table, request, code, list)
}

export function ticketOf({ access }: ChatCommand): Ticket {
  return new Ticket({ customerId: access.customerId, keyId: access.keyId ?? '', priority: access.policy.priority })
}

type Saturated = Extract<Placement, { kind: 'saturated' }>
type Asleep = Extract<Placement, { kind: 'asleep' }>
/**
 * Calls of others wait there for the model to be loaded. One load serves all: this request waits, too, and as long as a
 * load may take.
 */
const isBeingLoaded = ({ load: { reading, inFlight } }: Route) => reading.cold && inFlight > 0

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

interface Loading {
  readonly kind: 'loading'
  readonly route: Route
}

/** The search for a route that answers: its decisions and its tries. */
class Search {
  readonly tries: Tries
  /** When the try of a route began whose model is not in memory; null: it is. */
  private coldTryMs: number | null = null
  private readonly triesMax: number
  private looked = false
  /** null after a wait without a slot; then a higher rank may serve. */
  private queueWaitMs: number | null
  /** Until when it waits for the route that has its prompt in the cache; null: it has not waited for one. */
  private patientUntilMs: number | null = null

  constructor(
    private readonly exchange: Dispatched,
    private readonly wanted: PlacementRequest,
    private readonly clocks: Clocks,
  ) {
    this.tries = new Tries(exchange)
    this.queueWaitMs = wanted.queueWaitMs
    this.triesMax = wanted.pin === null ? exchange.port.config.SVC_FAILOVER_ROUTES_MAX + 1 : 1
  }

  /** Throws the refusal if no route may or can serve. */
  look(): Placed | Saturated | Loading | Asleep {
    const { exchange, tries } = this
    const { port, command } = exchange
    const ended = exchange.ended()
    if (ended !== null) throw tries.ended(ended)
    const table = port.router.table()
    const { looked } = this
    const request = looked ? this.another(table) : this.wanted
    this.looked = true
    const placement = place(table, request)
    port.decided(command, { table, request, placement }, this.clocks.looks++ > 0, looked)
    if (placement.kind === 'placed') {
      if (isBeingLoaded(placement.route)) return { kind: 'loading', route: placement.route }
      this.placed(placement, request)
    }
    const full = placement.kind === 'saturated' && placement.awaits === null ? placement.routes : []
    const loading = full.find(isBeingLoaded)
    if (loading !== undefined) return { kind: 'loading', route: loading }
    if (placement.kind !== 'refused') return placement
    throw tries.anyFailed ? tries.givenUp() : refusal(command, { table, request }, placement.code)
  }

  private placed(placement: Placed, request: PlacementRequest): void {
    const { port, command } = this.exchange
    this.exchange.work = takePlace(placement, request, Math.random)
    // The try claims the slot in this turn, before another request can look.
    if (command.ticket !== undefined) port.router.servedFromQueue(request.modelId, command.ticket)
  }

  /** A copy: the first decision is kept for `explain`. */
  private another(table: RoutingTable): PlacementRequest {
    const { wanted, tries, queueWaitMs, cacheWaitMs } = this
    const { contextAbove } = tries
    const modelId = table.byModel.get(wanted.modelId)?.[0]?.modelId ?? wanted.modelId
    // While it waited, the caches have changed.
    const matches = this.exchange.port.router.caches.match(modelId, wanted.prompt)
    return { ...wanted, exclude: tries.excluded(), contextAbove, queueWaitMs, cacheWaitMs, matches, nowMs: Date.now() }
  }

  private get cacheWaitMs(): number | null {
    const nowMs = performance.now()
    if (this.patientUntilMs !== null && nowMs >= this.patientUntilMs) return null
    return nowMs < this.clocks.queueUntilMs ? this.clocks.queueUntilMs - nowMs : null
  }

  /** Waits until another look is worth it. Throws what the request is refused with, if the wait was in vain. */
  waitFor(unplaced: Saturated | Loading | Asleep): Promise<void> {
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

  /** Nobody waits any more. */
  end(): void {
    this.clocks.waking?.end()
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
    if (!tries.failed(route.profileId, { code: 'upstream_error', failover: true }) || this.spent) throw tries.givenUp()
    this.tries.count++
  }

  private get spent(): boolean {
    return this.tries.count >= this.triesMax
  }

  /** Of the try that begins now, ms until its first chunk; beyond it the route is given up where another one is left. */
  firstChunkMs({ route, open }: Placed): number {
    this.tries.count++
    const nowMs = performance.now()
    const { deadlineMs, coldLeftMs, modelsLeft } = this.clocks
    const leftMs = deadlineMs - nowMs
    this.coldTryMs = route.load.reading.cold ? nowMs : null
    if (this.coldTryMs !== null) return leftMs + coldLeftMs
    if (modelsLeft === 0 && (this.spent || open.length === 1)) return leftMs
    const patienceMs = 4 * (route.load.ttftEwmaMs ?? 0)
    return Math.min(leftMs, Math.max(this.exchange.port.config.SVC_FAILOVER_FIRST_CHUNK_MS, patienceMs))
  }

  /** Throws where no other route is worth a try. */
  failed({ route }: Placed, failure: AttemptFailure): void {
    const { port, command } = this.exchange
    if (this.coldTryMs !== null) this.clocks.loadTook(performance.now() - this.coldTryMs, this.exchange.callsUntilMs)
    this.exchange.tryFailed(failure.code)
    // A call that ended because its client left is not a failure of the node.
    if (!command.signal.aborted) port.failed(failure.code)
    if (!this.tries.failed(route.profileId, failure) || this.spent) throw this.tries.givenUp()
    if (performance.now() >= this.clocks.deadlineMs) throw this.tries.givenUp('upstream_timeout')
  }
}

/**
 * Places and tries routes until one answers (§5, failover): at most `SVC_FAILOVER_ROUTES_MAX` others, none
 * when pinned, all within one deadline, a short bounded wait where every route is full. `attempt` resolves with the
 * answer, or with why this route gave none; `firstChunkMs`: until its first chunk.
 */
export async function dispatch<T extends object>(
  exchange: Dispatched,
  wanted: PlacementRequest,
  attempt: (route: Route, firstChunkMs: number) => Promise<T | { readonly failure: AttemptFailure }>,
  clocks = new Clocks(exchange),
): Promise<T> {
  const search = new Search(exchange, wanted, clocks)
  try {
    return await searched(search, attempt)
  } finally {
    search.end()
  }
}

async function searched<T extends object>(
  search: Search,
  attempt: (route: Route, firstChunkMs: number) => Promise<T | { readonly failure: AttemptFailure }>,
): Promise<T> {
  for (;;) {
    const placed = search.look()
    if (placed.kind !== 'placed') {
      await search.waitFor(placed)
      continue
    }
    // An agent wakes its servers by itself.
    if (placed.route.load.reading.dozing && placed.route.agent === null) {
      await search.rouse(placed)
      continue
    }
    const result = await attempt(placed.route, search.firstChunkMs(placed))
    if (!('failure' in result)) {
      search.tries.served()
      return result
    }
    search.failed(placed, result.failure)
  }
}
