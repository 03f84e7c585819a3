import type { ProblemCode } from '../../errors.ts'
import { type DemandSpan, ModelDemand, watchedSpan } from '../../machines/plan/demand.ts'
import type { Placement } from '../../machines/rules/placement.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import type { Demands } from '../../protocol/wire/admin/memory-plan.ts'

/** Models of one owner's nodes that are counted at a time; the model with the oldest last request makes room. */
const demandsMax = 1_000

/** Refusals for want of room, or of patience with a load. */
const turnedAway: ReadonlySet<ProblemCode> = new Set(['capacity_exhausted', 'model_loading'])

interface Ended {
  /** As the client named it; null: the request did not come so far. */
  readonly model: string | null
  /** Of the last node that was called; null: none was. */
  readonly nodeId: string | null
  readonly code: ProblemCode | null
  /** How long it has waited for the model to be loaded; null: not at all. */
  readonly loadMs: number | null
}

/** How much this process is asked for each model, by the owner of the nodes that serve it. */
export class ModelDemands {
  private readonly byOwner = new Map<string, Map<string, ModelDemand>>()
  private readonly sinceMs: number
  private known = 0

  private waited = () => {}

  /** `now`: Unix ms. */
  constructor(
    private readonly table: () => RoutingTable,
    private readonly now: () => number = Date.now,
  ) {
    this.sinceMs = now()
  }

  /** Calls back when a request has waited for a load. */
  onWait(waited: () => void): void {
    this.waited = waited
  }

  /** A request was placed, or finds all routes full; what nobody serves is no demand. */
  asked(placement: Placement): void {
    if (placement.kind === 'refused') return
    const route = placement.kind === 'placed' ? placement.route : placement.routes[0]
    if (route !== undefined) this.of(route.customerId, route.modelId).add('calls', 1, this.now())
  }

  ended({ model, nodeId, code, loadMs }: Ended): void {
    const away = code !== null && turnedAway.has(code)
    if (model === null || (!away && loadMs === null)) return
    const demand = this.demandOf(model, nodeId)
    if (demand === null) return
    const nowMs = this.now()
    if (away) demand.add('turnedAway', 1, nowMs)
    if (loadMs === null) return
    demand.add('waited', 1, nowMs)
    demand.add('waitMs', loadMs, nowMs)
    this.waited()
  }

  get span(): DemandSpan {
    return watchedSpan(this.sinceMs, this.now())
  }

  /** Of the last hour. */
  sums(): Demands {
    const nowMs = this.now()
    const { decayedMs, recentMs } = this.span
    const models = [...this.byOwner].flatMap(([owner, demands]) =>
      [...demands].map(([model, demand]) => ({ owner, model, ...demand.sums(nowMs) })),
    )
    return { decayed_ms: decayedMs, recent_ms: recentMs, models }
  }

  /** A client may have named an alias, and a request without a node belongs to the first owner who has the model. */
  private demandOf(name: string, nodeId: string | null): ModelDemand | null {
    const { byModel, owners } = this.table()
    const [first] = byModel.get(name) ?? []
    if (first === undefined) return null
    return this.of(owners.get(nodeId ?? '') ?? first.customerId, first.modelId)
  }

  private of(owner: string, modelId: string): ModelDemand {
    let demands = this.byOwner.get(owner)
    if (demands === undefined) {
      demands = new Map()
      this.byOwner.set(owner, demands)
    }
    let demand = demands.get(modelId)
    if (demand === undefined) {
      this.makeRoom()
      demand = new ModelDemand(this.now())
      demands.set(modelId, demand)
      this.known++
    }
    return demand
  }

  private makeRoom(): void {
    if (this.known < demandsMax) return
    const all = [...this.byOwner.values()].flatMap((demands) =>
      [...demands].map(([modelId, demand]) => ({ demands, modelId, lastMs: demand.lastMs })),
    )
    const [oldest] = all.toSorted((a, b) => a.lastMs - b.lastMs)
    if (oldest?.demands.delete(oldest.modelId) === true) this.known--
  }
}
