import type { ProblemCode } from '../../errors.ts'
import { type ExplainedRoute, explainPlacement } from '../../machines/rules/explain.ts'
import type { Placement } from '../../machines/rules/placement.ts'
import type { Route, RoutingTable } from '../../machines/rules/routing.ts'
import type { ChatCommand } from '../chat/chat-command.ts'
import type { Decision } from '../dispatch/dispatched.ts'
import { loadNumbers, UsualDecisions, type UsualKind, withoutPrompt } from './usual-decisions.ts'

/** Why a request went where it went: one entry per time a route was chosen or none was found. */
export interface Explanation {
  readonly requestId: string
  readonly model: string
  readonly customerId: string
  readonly tries: readonly {
    readonly atMs: number
    /** A request may name several, which are looked for one after the other. */
    readonly model: string
    readonly result: Placement['kind']
    readonly code: ProblemCode | null
    readonly routes: readonly ExplainedRoute[]
  }[]
}

/** Requests kept (§23). A decision shares the routes of its model with its neighbours, so an entry is small. */
const requestsMax = 10_000
/** Routes that all kept decisions saw: some hundred bytes each, so a model of thousands of nodes has fewer decisions. */
const routesMax = 2_000_000
/** A request that waits in a queue decides again and again. */
const triesMax = 8
/** Of a choice between more routes, only the winner's costs are kept. */
const costsMax = 16

/**
 * A decision and the loads at its time. All tables share the loads, which change before an operator asks. The table
 * itself is not kept: at one request a second each request has another table, and each table has all models of the
 * pool.
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

/** Keeps each decision and its inputs; the reasons are computed only on request. */
export class DecisionLog {
  /** No index: only the rare question searches, and a Map costs every request 2 µs. */
  private readonly ring: (Entry | UsualKind | undefined)[] = new Array(requestsMax).fill(undefined)
  private readonly usual = new UsualDecisions(requestsMax)
  private next = 0
  private oldest = 0
  /** That all kept decisions saw. */
  private routes = 0

  /** `again`: the request has been decided on before. */
  record(command: ChatCommand, decision: Decision, again: boolean): void {
    const at = again ? this.find(command.requestId) : null
    if (at === null) this.add(command, decision)
    else this.addTo(this.entryAt(at), decision)
    this.makeRoom()
  }

  /** null: never seen, or no longer among the last `requestsMax`. */
  explain(requestId: string): Explanation | null {
    const at = this.find(requestId)
    if (at === null) return null
    const entry = this.entryAt(at)
    const { modelId: model, access } = entry.request
    return { requestId, model, customerId: access.customerId, tries: [entry, ...(entry.more ?? [])].map(explained) }
  }

  private add(command: ChatCommand, decision: Decision): void {
    const { next, ring } = this
    const before = ring[next]
    if (before !== undefined) {
      this.routes -= routesIn(before)
      this.oldest = (next + 1) % requestsMax
    }
    const seen = routesOf(decision)
    const entry = this.usual.put(next, command, decision, seen) ?? {
      ...keep(decision),
      requestId: command.requestId,
      more: null,
    }
    // An array that is written to is walked by the next collection, all of it.
    if (before !== entry) ring[next] = entry
    this.next = (next + 1) % requestsMax
    this.routes += seen.length
  }

  private addTo(entry: Entry, decision: Decision): void {
    entry.more ??= []
    if (entry.more.length >= triesMax - 1) return
    const seen = keep(decision)
    entry.more.push(seen)
    this.routes += seen.routes.length
  }

  /** The newest stays, whatever it saw. In a full ring the oldest stands where the next one will. */
  private makeRoom(): void {
    const newest = (this.next - 1 + requestsMax) % requestsMax
    while (this.routes > routesMax && this.oldest !== newest) {
      const gone = this.ring[this.oldest]
      if (gone !== undefined) this.routes -= routesIn(gone)
      this.ring[this.oldest] = undefined
      this.oldest = (this.oldest + 1) % requestsMax
    }
  }

  private find(requestId: string): number | null {
    const { ring, usual } = this
    for (let back = 1; back <= requestsMax; back++) {
      const at = (this.next - back + requestsMax) % requestsMax
      const entry = ring[at]
      if (entry === undefined) return null
      if ('requestId' in entry ? entry.requestId === requestId : usual.is(at, requestId)) return at
    }
    return null
  }

  /** As an object of its own, which then stands there. */
  private entryAt(at: number): Entry {
    const kept = this.ring[at] as Entry | UsualKind
    if ('requestId' in kept) return kept
    const { usual } = this
    const entry = { ...kept, ...usual.read(at, kept), more: null }
    this.ring[at] = entry
    return entry
  }
}

const routesIn = (kept: Entry | UsualKind) =>
  'more' in kept && kept.more !== null
    ? kept.more.reduce((all, { routes }) => all + routes.length, kept.routes.length)
    : kept.routes.length

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
    model: request.modelId,
    result: placement.kind,
    code: placement.kind === 'refused' ? placement.code : null,
    routes: explainPlacement(asItWas, request, placement),
  }
}
