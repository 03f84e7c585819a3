import { addedDemand, type DemandSpan, type DemandSums, noDemand, rateOf } from '../../machines/plan/demand.ts'
import type { PlanHost, PlanModel, PlanPlace, PlanProblem } from '../../machines/plan/problem.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import { isControllable } from '../../polling/tell-runtime.ts'
import type { Demands } from '../../protocol/wire/admin/memory-plan.ts'
import type { ModelView, NodeView, RuntimeView } from '../pool/views/node-view.ts'

export interface PlanFacts {
  readonly nodes: readonly NodeView[]
  readonly table: Pick<RoutingTable, 'owners' | 'byModel'>
  nodeName(nodeId: string): string
  /** Of all processes of this gateway. */
  readonly demands: readonly Demands[]
  /** Calls per second in the same hour of past days, by the names that clients used; null: none are kept. */
  readonly past: ReadonlyMap<string, number> | null
}

/** The most places that a plan looks at: those of the models with the most demand. */
const placesMax = 4_000
/** Of a call of a model whose calls were not measured. */
const durationMsAssumed = 5_000
/** A habit counts half as much as what happens now. */
const pastShare = 0.5

interface Held {
  readonly owner: string
  readonly model: ModelView
  /** null: its memory is not planned. */
  readonly hostKey: string | null
}

const keyOf = (owner: string, modelId: string) => `${owner} ${modelId}`

/** Its server can be told what to have in memory, and says what it has there. */
const isPlanned = ({ kind }: RuntimeView, { loaded, placing }: ModelView) =>
  loaded !== null && (placing.served || isControllable(kind))

/** What the process watches longest counts: the others began later. */
function spanOf(demands: readonly Demands[]): DemandSpan {
  const most = (of: (each: Demands) => number) => Math.max(1, ...demands.map(of))
  return { decayedMs: most(({ decayed_ms }) => decayed_ms), recentMs: most(({ recent_ms }) => recent_ms) }
}

/** By owner and model. */
function sumsOf(demands: readonly Demands[], { namesOf }: Pool): ReadonlyMap<string, DemandSums> {
  const sums = new Map<string, DemandSums>()
  for (const { owner, model, ...own } of demands.flatMap(({ models }) => models)) {
    const named = keyOf(owner, model)
    const key = namesOf.get(named) ?? named
    sums.set(key, addedDemand(sums.get(key) ?? noDemand, own))
  }
  return sums
}

/** The same under the ids that nodes have, whatever clients said. */
function pastOf({ past, table }: PlanFacts): ReadonlyMap<string, number> | null {
  if (past === null) return null
  const byId = new Map<string, number>()
  for (const [name, perS] of past) {
    const id = table.byModel.get(name)?.[0]?.modelId
    if (id !== undefined) byId.set(id, (byId.get(id) ?? 0) + perS)
  }
  return byId
}

/** The models of one computer's agent share its memory; any other server has its own. */
const hostKeyOf = (node: NodeView, runtime: RuntimeView, { placing }: ModelView) =>
  placing.served ? node.nodeId : `${node.nodeId} ${runtime.runtimeId}`

interface Pool {
  readonly held: readonly Held[]
  readonly hosts: ReadonlyMap<string, PlanHost>
  /** Names of a model that share its server: their demand is its own. */
  readonly namesOf: ReadonlyMap<string, string>
}

function poolOf(facts: PlanFacts): Pool {
  const held: Held[] = []
  const hosts = new Map<string, PlanHost>()
  const namesOf = new Map<string, string>()
  for (const node of facts.nodes) {
    const owner = facts.table.owners.get(node.nodeId)
    if (owner === undefined || node.state !== 'ready') continue
    for (const runtime of node.runtimes) {
      // All ranks of a server have one memory.
      if ((runtime.engineRank ?? 0) > 0) continue
      const byName = new Map(runtime.models.map((model) => [model.upstreamModelId, model]))
      for (const model of runtime.models) {
        if (!model.ready) continue
        const first = byName.get(model.placing.anotherNameOf ?? '')
        if (first !== undefined) {
          namesOf.set(keyOf(owner, model.modelId), keyOf(owner, first.modelId))
          continue
        }
        const planned = isPlanned(runtime, model)
        const hostKey = planned ? hostKeyOf(node, runtime, model) : null
        held.push({ owner, model, hostKey })
        if (hostKey !== null) hosts.set(hostKey, hostOf(facts, node, runtime, hosts.get(hostKey)))
      }
    }
  }
  return { held, hosts, namesOf }
}

function hostOf(facts: PlanFacts, { nodeId }: NodeView, { memory }: RuntimeView, known?: PlanHost): PlanHost {
  return {
    nodeId,
    name: facts.nodeName(nodeId),
    budgetsMb: known?.budgetsMb ?? memory.budgetsMb,
    // An agent of an earlier version tells no budget: each of its servers is a runtime of one model.
    modelsMax: known === undefined ? memory.loadedMax : known.modelsMax + memory.loadedMax,
  }
}

function placeOf({ model: view, hostKey }: Held, model: number, host: PlanHost, hostAt: number): PlanPlace {
  const { placing } = view
  const budgets = host.budgetsMb
  // A need on a device without a budget is one that the file of its node does not have.
  const needs = Object.entries(placing.needsMb ?? {}).filter(([device]) => budgets?.[device] !== undefined)
  return {
    model,
    host: hostAt,
    upstreamModelId: view.upstreamModelId,
    memoryMb: hostKey === null ? {} : Object.fromEntries(needs),
    group: placing.group,
    pinned: placing.pinned,
    holds: view.loaded === true ? 'loaded' : view.loadingSinceMs === null ? 'away' : 'loading',
    loadMs: placing.loadMs,
    lastUsedMs: placing.lastUsedMs,
  }
}

const meanOf = (values: readonly number[]): number | null =>
  values.length === 0 ? null : values.reduce((sum, value) => sum + value, 0) / values.length

const knownOf = (held: readonly Held[], of: (placing: ModelView['placing']) => number | null): readonly number[] =>
  held.flatMap(({ model: { placing } }) => of(placing) ?? [])

function modelOf(held: readonly Held[], sums: DemandSums, span: DemandSpan, pastPerS: number | null): PlanModel {
  const { calls, waited, waitMs, turnedAway } = sums
  const perS = Math.max(rateOf(sums, span), pastShare * (pastPerS ?? 0))
  return {
    modelId: held[0]?.model.modelId ?? '',
    demand: { perS, pastPerS, calls, waited, waitMs, turnedAway },
    fixed: held.filter(({ hostKey, model }) => hostKey === null && model.loaded !== false).length,
    durationMs: meanOf(knownOf(held, ({ durationMs }) => durationMs)) ?? durationMsAssumed,
    slots: meanOf(knownOf(held, ({ slots }) => slots)),
  }
}

/** The pool and its demand, as the plan reads them. */
export function problemOf(facts: PlanFacts): PlanProblem {
  const pool = poolOf(facts)
  const { hosts } = pool
  const byModel = Map.groupBy(pool.held, ({ owner, model }) => keyOf(owner, model.modelId))
  const sums = sumsOf(facts.demands, pool)
  const span = spanOf(facts.demands)
  const past = pastOf(facts)
  const wanted = [...byModel]
    .map(([key, held]) => {
      const pastPerS = past === null ? null : (past.get(held[0]?.model.modelId ?? '') ?? 0)
      return { held, model: modelOf(held, sums.get(key) ?? noDemand, span, pastPerS) }
    })
    .toSorted((a, b) => b.model.demand.perS - a.model.demand.perS)
  const hostAts = new Map([...hosts.keys()].map((key, at) => [key, at]))
  const hostList = [...hosts.values()]
  const places = wanted.flatMap(({ held }, at) =>
    held.flatMap((each) => {
      const hostAt = each.hostKey === null ? -1 : (hostAts.get(each.hostKey) ?? -1)
      const host = hostList[hostAt]
      return host === undefined ? [] : placeOf(each, at, host, hostAt)
    }),
  )
  return { models: wanted.map(({ model }) => model), hosts: hostList, places: places.slice(0, placesMax) }
}
