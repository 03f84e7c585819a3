import { type Clock, systemClock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import type { NodeId } from '../../ids.ts'
import { failureName, type Log } from '../../log.ts'
import { type MemoryPlan, planMemory } from '../../machines/plan/memory-plan.ts'
import type { PlanMove } from '../../machines/plan/moves.ts'
import { horizonS, wantedReplicas } from '../../machines/plan/problem.ts'
import { sentenceOf } from '../../machines/plan/sentences.ts'
import type { ModelWishName } from '../../polling/tell-runtime.ts'
import { Demands, type PlanMode } from '../../protocol/wire/admin/memory-plan.ts'
import { dayMs, hourMs, minuteMs, secondMs } from '../../time.ts'
import type { AuditContext } from '../audit/audit-context.ts'
import type { ModelWishes } from '../loading/model-wishes.ts'
import type { PoolRouter } from '../pool/pool-router.ts'
import type { NodeView } from '../pool/views/node-view.ts'
import type { RequestLog } from '../requests/request-log.ts'
import type { Siblings } from '../siblings/siblings.ts'
import type { ModelDemands } from './model-demands.ts'
import { problemOf } from './plan-facts.ts'

export interface MemoryPlannerOptions {
  /** SVC_PLAN */
  readonly mode: PlanMode
  readonly router: Pick<PoolRouter, 'nodes' | 'table' | 'nodeName' | 'subscribe'>
  readonly demands: ModelDemands
  readonly wishes: Pick<ModelWishes, 'tell'>
  readonly requests: Pick<RequestLog, 'modelRequests' | 'days'>
  readonly siblings: Pick<Siblings, 'ask'>
  readonly log: Log
  readonly clock?: Clock
  /** Unix ms. */
  readonly now?: () => number
}

export interface PlanNow {
  /** Unix ms. */
  readonly atMs: number
  readonly plan: MemoryPlan
}

const everyMs = minuteMs
/** A change of the pool, or a call that has waited for a load, makes a plan within this time, ms. */
const changeMs = 5 * secondMs
/** A plan is reused for this long, ms. */
const freshMs = 2 * secondMs
/** The number of past days whose same hour counts. */
const pastDays = [1, 2]
/** A node that would not, or that has not done it, is not told the same again within this time, ms. */
const refusedMs = horizonS * secondMs
/** Beyond the load's own time a node that was told is not waited for, ms. */
const commandSlackMs = 30 * secondMs

/** Which model belongs where: computed once a minute and on change, and done where the operator wants that (§37). */
export class MemoryPlanner {
  private latest: PlanNow | null = null
  private readonly planning: Loop
  private readonly now: () => number
  private leads = false
  private unsubscribe = () => {}
  private past: { readonly hourMs: number; readonly perS: ReadonlyMap<string, number> } | null = null
  /** Until when a node that was told to load a model is left alone, Unix ms. */
  private readonly orderedUntil = new Map<string, number>()
  /** Loads that did not work, by node and model, and until when they are not tried again. */
  private readonly refused = new Map<string, number>()

  constructor(private readonly options: MemoryPlannerOptions) {
    const { log, clock = systemClock, now = Date.now } = options
    this.now = now
    this.planning = loop({
      everyMs,
      run: () => this.look(),
      onFailure: (error) => log.warn('memory_not_planned', { failure: failureName(error) }),
      clock,
    })
  }

  get mode(): PlanMode {
    return this.options.mode
  }

  start(): void {
    if (this.mode === 'off') return
    this.planning.start()
    this.unsubscribe = this.options.router.subscribe(() => this.soon())
  }

  stop(): Promise<void> {
    this.unsubscribe()
    return this.planning.stop()
  }

  /** This process acts for its gateway. */
  lead(): void {
    this.leads = true
  }

  /** Another process does. */
  follow(): void {
    this.leads = false
  }

  /** Something has changed that the plan may answer. */
  soon(): void {
    this.planning.soon(changeMs)
  }

  /** The plan of now; null: it is off. */
  async current(): Promise<PlanNow | null> {
    if (this.mode === 'off') return null
    if (this.latest === null || this.latest.atMs + freshMs < this.now()) await this.planning.now()
    return this.latest
  }

  /** The last plan, without a wait; null: none was made. */
  last(): PlanNow | null {
    return this.latest
  }

  /** By the last plan and model, of the process that leads: the others would count twice. */
  async wantedReplicas(): Promise<Readonly<Record<string, number>>> {
    const wanted: Record<string, number> = {}
    const now = this.leads ? (this.latest ?? (await this.current())) : null
    for (const model of now?.plan.problem.models ?? []) {
      const replicas = wantedReplicas(model)
      if (replicas > 0) wanted[model.modelId] = (wanted[model.modelId] ?? 0) + replicas
    }
    return wanted
  }

  private async look(): Promise<void> {
    const { router, demands, siblings } = this.options
    const theirs = await siblings.ask('demands', {}, Demands)
    const past = await this.pastRates()
    const nodes = router.nodes()
    const plan = planMemory(
      problemOf({
        nodes,
        table: router.table(),
        nodeName: (nodeId) => router.nodeName(nodeId) ?? nodeId,
        demands: [demands.sums(), ...theirs],
        past,
      }),
    )
    this.latest = { atMs: this.now(), plan }
    if (this.mode === 'act' && this.leads) await this.act(plan, nodes)
  }

  /** Calls per second, on the mean of this hour in the days before; read once an hour. */
  private async pastRates(): Promise<ReadonlyMap<string, number> | null> {
    const { requests, log } = this.options
    if (requests.days === 0) return null
    const hour = Math.floor(this.now() / hourMs) * hourMs
    if (this.past?.hourMs === hour) return this.past.perS
    const perS = new Map<string, number>()
    try {
      for (const days of pastDays) {
        const fromMs = hour - days * dayMs
        for (const [model, count] of await requests.modelRequests({ fromMs, toMs: fromMs + hourMs })) {
          perS.set(model, (perS.get(model) ?? 0) + (count * secondMs) / hourMs / pastDays.length)
        }
      }
    } catch (error) {
      log.warn('past_demand_not_read', { failure: failureName(error) })
      return this.past?.perS ?? null
    }
    this.past = { hourMs: hour, perS }
    return perS
  }

  /** At most one load per node at a time, the most useful first. */
  private async act({ problem, moves }: MemoryPlan, nodes: readonly NodeView[]): Promise<void> {
    const nowMs = this.now()
    for (const [key, untilMs] of this.refused) if (untilMs <= nowMs) this.refused.delete(key)
    this.forgetDone(nodes, nowMs)
    const loading = new Set(problem.places.filter(({ holds }) => holds === 'loading').map(({ host }) => host))
    const busy = new Set([...loading].map((host) => problem.hosts[host]?.nodeId))
    for (const move of moves) {
      const place = problem.places[move.load]
      const nodeId = problem.hosts[place?.host ?? -1]?.nodeId
      if (place === undefined || nodeId === undefined || busy.has(nodeId) || this.orderedUntil.has(nodeId)) continue
      if (this.refused.has(`${nodeId} ${place.upstreamModelId}`)) continue
      this.orderedUntil.set(nodeId, nowMs + 2 * place.loadMs + commandSlackMs)
      await this.do(nodeId as NodeId, move, { problem, moves })
    }
  }

  /** A node whose model has come, or which has gone, may be told the next. */
  private forgetDone(nodes: readonly NodeView[], nowMs: number): void {
    const here = new Set<string>(nodes.map(({ nodeId }) => nodeId))
    for (const [nodeId, untilMs] of this.orderedUntil)
      if (untilMs <= nowMs || !here.has(nodeId)) this.orderedUntil.delete(nodeId)
  }

  private async do(nodeId: NodeId, move: PlanMove, { problem }: Pick<MemoryPlan, 'problem' | 'moves'>): Promise<void> {
    const { wishes, log } = this.options
    const nameOf = (at: number) => problem.places[at]?.upstreamModelId ?? ''
    const reason = sentenceOf(problem, move)
    const model = nameOf(move.load)
    try {
      for (const at of move.unload) await wishes.tell(wishOf('unload', reason), nodeId, 'unload', nameOf(at))
      await wishes.tell(wishOf('load', reason), nodeId, 'load', model)
      log.info('memory_planned', { node_id: nodeId, unloaded: move.unload.length })
    } catch (error) {
      this.refused.set(`${nodeId} ${model}`, this.now() + refusedMs)
      this.orderedUntil.delete(nodeId)
      log.warn('planned_load_refused', { node_id: nodeId, failure: failureName(error) })
    }
  }
}

/** The action of an operator, done by the gateway itself; its reason is the sentence of the plan. */
const wishOf = (wish: ModelWishName, reason: string): AuditContext => ({
  action: `node.model.${wish}`,
  actorType: 'gateway',
  actorRole: 'operator',
  actorHashPrefix: null,
  approverHashPrefix: null,
  reason,
  confirmation: null,
  requestId: null,
})
