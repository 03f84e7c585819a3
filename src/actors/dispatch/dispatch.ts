import type { Problem } from '../../errors.ts'
import { placementRefusal } from '../../machines/refusals/placement-refusal.ts'
import {
  type Placed,
  type PlacementRequest,
  place,
  type RefusalCode,
  takePlace,
} from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { AttemptFailure } from '../relay/attempt.ts'
import type { Decision, DispatchCommand, Dispatched } from './dispatched.ts'
import { Clocks, Tries } from './tries.ts'
import { type Unplaced, Waits } from './waits.ts'

/** The refusal when no route may or can serve. */
export function refusal(
  { operation }: Pick<DispatchCommand, 'operation'>,
  { table, request }: Pick<Decision, 'table' | 'request'>,
  code: RefusalCode,
): Problem {
  const list = operation.envelope === 'ollama' ? '/api/tags' : undefined
  return placementRefusal(table, request, code, list)
}

/**
 * Calls of others wait there for the model to be loaded. One load serves all: this request waits, too, and as long as a
 * load may take.
 */
const isBeingLoaded = ({ load: { reading, inFlight } }: Route) => reading.cold && inFlight > 0

/** The search for a route that answers: its decisions and its tries. */
class Search<C extends DispatchCommand> {
  readonly tries: Tries
  /** When the try of a route began whose model is not in memory; null: it is. */
  private coldTryMs: number | null = null
  private looked = false
  /** null: it has neither waited nor looked again, as nearly every request. */
  private waited: Waits | null = null

  constructor(
    private readonly exchange: Dispatched<C>,
    private readonly wanted: PlacementRequest,
    private readonly clocks: Clocks,
  ) {
    this.tries = new Tries(exchange, wanted.pin === null ? exchange.port.config.SVC_FAILOVER_ROUTES_MAX + 1 : 1)
  }

  get waits(): Waits {
    this.waited ??= new Waits(this.exchange, this.wanted, this.clocks, this.tries)
    return this.waited
  }

  /** Throws the refusal if no route may or can serve. */
  look(): Placed | Unplaced {
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
    const { wanted, tries } = this
    const { queueWaitMs, cacheWaitMs } = this.waits
    const { contextAbove } = tries
    const [side, freeOnly] = [tries.side ?? wanted.side, tries.free || wanted.freeOnly]
    // While it waited, the caches have changed.
    const matches = this.exchange.port.router.caches.matchAt(table.byModel.get(wanted.modelId) ?? [], wanted.prompt)
    const exclude = tries.excluded()
    const nowMs = Date.now()
    return { ...wanted, exclude, side, freeOnly, contextAbove, queueWaitMs, cacheWaitMs, matches, nowMs }
  }

  /** Of the try that begins now, ms until its first chunk; beyond it the route is given up where another one is left. */
  firstChunkMs({ route, open }: Placed): number {
    this.tries.count++
    const nowMs = performance.now()
    const { deadlineMs, coldLeftMs, modelsLeft } = this.clocks
    const leftMs = deadlineMs - nowMs
    this.coldTryMs = route.load.reading.cold ? nowMs : null
    if (this.coldTryMs !== null) return leftMs + coldLeftMs
    if (modelsLeft === 0 && (this.tries.spent || open.length === 1)) return leftMs
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
    if (!this.tries.failed(route, failure) || this.tries.spent) throw this.tries.givenUp()
    if (performance.now() >= this.clocks.deadlineMs) throw this.tries.givenUp('upstream_timeout')
  }
}

/**
 * Places and tries routes until one answers (§5, failover): at most `SVC_FAILOVER_ROUTES_MAX` others, none
 * when pinned, all within one deadline, a short bounded wait where every route is full. `attempt` resolves with the
 * answer, or with why this route gave none; `firstChunkMs`: until its first chunk.
 */
export async function dispatch<C extends DispatchCommand, T extends object>(
  exchange: Dispatched<C>,
  wanted: PlacementRequest,
  attempt: (route: Route, firstChunkMs: number) => Promise<T | { readonly failure: AttemptFailure }>,
  clocks = new Clocks(exchange),
): Promise<T> {
  const search = new Search(exchange, wanted, clocks)
  try {
    for (;;) {
      const placed = search.look()
      if (placed.kind !== 'placed') await search.waits.until(placed)
      // An agent wakes its servers by itself.
      else if (placed.route.load.reading.dozing && placed.route.agent === null) await search.waits.rouse(placed)
      else {
        const result = await attempt(placed.route, search.firstChunkMs(placed))
        if (!('failure' in result)) {
          search.tries.served()
          return result
        }
        search.failed(placed, result.failure)
      }
    }
  } finally {
    clocks.waking?.end()
  }
}
