import type { ProblemCode } from '../../errors.ts'
import { noMatches } from '../../machines/placement/cache-view.ts'
import { type ExplainedRoute, explainPlacement } from '../../machines/rules/explain.ts'
import type { Placement, PlacementRequest } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ChatCommand } from './chat-command.ts'
import type { Decision } from './dispatch.ts'

/** Why a request went where it went: one entry per time a route was chosen or none was found. */
export interface Explanation {
  readonly requestId: string
  readonly model: string
  readonly customerId: string
  readonly tries: readonly {
    readonly atMs: number
    readonly result: 'placed' | 'saturated' | 'refused'
    readonly code: ProblemCode | null
    readonly routes: readonly ExplainedRoute[]
  }[]
}

export interface DecisionLog {
  /** `again`: the request has been decided on before. */
  record(command: ChatCommand, decision: Decision, again: boolean): void
  /** null: never seen, or no longer among the last `requestsMax`. */
  explain(requestId: string): Explanation | null
}

/** Requests kept (§23). A decision shares the routes of its model with its neighbours, so an entry is small. */
const requestsMax = 10_000
/** Routes that all kept decisions saw: some hundred bytes each, so a model of thousands of nodes has fewer decisions. */
const routesMax = 2_000_000
/** A request that waits in a queue decides again and again. */
const triesMax = 8
/** Kept of each route. */
const loadNumbers = 3
/** Of a choice between more routes, only the winner's costs are kept. */
const costsMax = 16

/**
 * A decision and the loads it saw: they are shared by all tables, and have moved on when somebody asks. The table itself is
 * not kept: at one request a second there is another one for each, and each has all models of the pool.
 */
interface Kept extends Omit<Decision, 'table'> {
  /** Those of the model. */
  readonly routes: readonly Route[]
  readonly owners: RoutingTable['owners']
  /** Of each route of the model: calls in flight, time to first token (-1: unknown), end of the ejection. */
  readonly loads: readonly number[]
}

interface Entry extends Kept {
  readonly requestId: string
  /** Further decisions for the same request: rare. */
  more: Kept[] | null
}

/** Keeps what was decided, and on what; the reasons are worked out only when somebody asks. */
export function createDecisionLog(): DecisionLog {
  // A ring and no index: only the rare question searches, and a Map costs every request 2 µs.
  const ring: (Entry | undefined)[] = new Array(requestsMax).fill(undefined)
  let next = 0
  let oldest = 0
  let routes = 0
  const forget = (at: number) => {
    const entry = ring[at]
    if (entry === undefined) return
    routes -= entry.routes.length
    for (const { routes: seen } of entry.more ?? []) routes -= seen.length
    ring[at] = undefined
  }
  /** The newest stays, whatever it saw. In a full ring the oldest stands where the next one will. */
  const makeRoom = () => {
    const newest = (next - 1 + requestsMax) % requestsMax
    while (routes > routesMax && oldest !== newest) {
      forget(oldest)
      oldest = (oldest + 1) % requestsMax
    }
  }
  const find = (requestId: string): Entry | null => {
    for (let back = 1; back <= requestsMax; back++) {
      const entry = ring[(next - back + requestsMax) % requestsMax]
      if (entry === undefined) return null
      if (entry.requestId === requestId) return entry
    }
    return null
  }
  return {
    record: (command, decision, again) => {
      const { requestId } = command
      const known = again ? find(requestId) : null
      if (known !== null) {
        known.more ??= []
        if (known.more.length >= triesMax - 1) return
        const seen = keep(decision)
        known.more.push(seen)
        routes += seen.routes.length
        makeRoom()
        return
      }
      const { table, placement } = decision
      const request = withoutPrompt(decision.request)
      const seen = routesOf(decision)
      if (ring[next] !== undefined) {
        forget(next)
        oldest = (next + 1) % requestsMax
      }
      ring[next] = {
        requestId,
        routes: seen,
        owners: table.owners,
        request,
        placement: kept(placement),
        loads: loadsOf(seen),
        more: null,
      }
      next = (next + 1) % requestsMax
      routes += seen.length
      makeRoom()
    },
    explain: (requestId) => {
      const entry = find(requestId)
      if (entry === null) return null
      const { request, more } = entry
      const { modelId: model, access } = request
      return { requestId, model, customerId: access.customerId, tries: [entry, ...(more ?? [])].map(explained) }
    },
  }
}

const routesOf = ({ table, request }: Decision): readonly Route[] => table.byModel.get(request.modelId) ?? []

function keep(decision: Decision): Kept {
  const routes = routesOf(decision)
  return {
    routes,
    owners: decision.table.owners,
    request: withoutPrompt(decision.request),
    placement: kept(decision.placement),
    loads: loadsOf(routes),
  }
}

/** The hashes of a long prompt would be kept long after it, and nobody asks for them. */
function withoutPrompt(request: PlacementRequest): PlacementRequest {
  return request.prompt === null ? request : { ...request, prompt: null, matches: noMatches }
}

function kept(placement: Placement): Placement {
  if (placement.kind !== 'placed' || placement.open.length <= costsMax) return placement
  const { route, open, costs } = placement
  const cost = costs?.[open.indexOf(route)]
  const others = open.filter((other) => other !== route)
  return { ...placement, open: [route, ...others], costs: cost === undefined ? null : [cost] }
}

function loadsOf(routes: readonly Route[]): readonly number[] {
  const loads = new Array<number>(routes.length * loadNumbers)
  let at = 0
  for (const { load } of routes) {
    loads[at++] = load.inFlight
    loads[at++] = load.ttftEwmaMs ?? -1
    loads[at++] = load.ejectedUntilMs
  }
  return loads
}

function explained(decision: Kept): Explanation['tries'][number] {
  const { owners, request, placement, loads } = decision
  const routes = decision.routes.map((route, at) => {
    const [inFlight = 0, ttftMs = -1, ejectedUntilMs = 0] = loads.slice(at * loadNumbers, (at + 1) * loadNumbers)
    const load = { ...route.load, inFlight, ttftEwmaMs: ttftMs === -1 ? null : ttftMs, ejectedUntilMs }
    return { ...route, load }
  })
  const byModel = new Map([[request.modelId, routes]])
  const asItWas = { version: 0, publishedAtMs: 0, routes, byModel, latest: new Map(), owners }
  return {
    atMs: request.nowMs,
    result: placement.kind,
    code: placement.kind === 'refused' ? placement.code : null,
    routes: explainPlacement(asItWas, request, placement),
  }
}
