import type { ProblemCode } from '../../errors.ts'
import { type ExplainedRoute, explainPlacement } from '../../machines/rules/explain.ts'
import type { Route } from '../../machines/rules/routing.ts'
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

/** Requests kept (§23). A decision shares its table with its neighbours, so an entry is small. */
const requestsMax = 10_000
/** A request that waits in a queue decides again and again. */
const triesMax = 8
/** Kept of each route. */
const loadNumbers = 3

/** A decision and the loads it saw: they are shared by all tables, and have moved on when somebody asks. */
interface Kept extends Decision {
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
        if (known.more.length < triesMax - 1) known.more.push(keep(decision))
        return
      }
      const { table, request, placement } = decision
      ring[next] = { requestId, table, request, placement, loads: loadsOf(decision), more: null }
      next = (next + 1) % requestsMax
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

const keep = (decision: Decision): Kept => ({ ...decision, loads: loadsOf(decision) })

function loadsOf(decision: Decision): readonly number[] {
  const routes = routesOf(decision)
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
  const { table, request, placement, loads } = decision
  const routes = routesOf(decision).map((route, at) => {
    const [inFlight = 0, ttftMs = -1, ejectedUntilMs = 0] = loads.slice(at * loadNumbers, (at + 1) * loadNumbers)
    const load = { ...route.load, inFlight, ttftEwmaMs: ttftMs === -1 ? null : ttftMs, ejectedUntilMs }
    return { ...route, load }
  })
  const asItWas = { ...table, byModel: new Map([[request.modelId, routes]]) }
  return {
    atMs: request.nowMs,
    result: placement.kind,
    code: placement.kind === 'refused' ? placement.code : null,
    routes: explainPlacement(asItWas, request, placement),
  }
}
