import type { MemoryPlanner, PlanNow } from '../../actors/planning/memory-planner.ts'
import type { MemoryPlan } from '../../machines/plan/memory-plan.ts'
import { type PlanPlace, wantedReplicas } from '../../machines/plan/problem.ts'
import { sentenceOf } from '../../machines/plan/sentences.ts'
import type { PlannedModel, PlannedPlace, planSteps } from '../../protocol/wire/admin/memory-plan.ts'
import { isoTime } from '../../time.ts'

const modelsMax = 1_000

type Step = (typeof planSteps)[number]
const order: readonly Step[] = ['load', 'leave', 'stay', 'spare', 'away']

interface Placed {
  readonly plan: MemoryPlan
  readonly leaving: ReadonlySet<number>
}

function stepOf({ plan: { chosen }, leaving }: Placed, { holds }: PlanPlace, at: number, moved: boolean): Step {
  if (moved) return 'load'
  if (holds === 'away') return 'away'
  if (leaving.has(at)) return 'leave'
  return chosen[at] === 1 ? 'stay' : 'spare'
}

/** Where what is, should be and should not be, the most useful load first. */
export function plannedPlaces(now: PlanNow | null): readonly PlannedPlace[] {
  if (now === null) return []
  const { plan } = now
  const { problem, moves } = plan
  const moveOf = new Map(moves.map((move) => [move.load, move]))
  const placed = { plan, leaving: new Set(moves.flatMap(({ unload }) => unload)) }
  const nameOf = (at: number) => problem.models[problem.places[at]?.model ?? -1]?.modelId ?? ''
  const rows = problem.places.map((place, at): PlannedPlace => {
    const move = moveOf.get(at)
    const host = problem.hosts[place.host]
    const gain = move === undefined || !Number.isFinite(move.gainMs) ? null : Math.round(move.gainMs)
    const mb = Object.values(place.memoryMb).reduce((sum, each) => sum + each, 0)
    return {
      model: nameOf(at),
      node_id: host?.nodeId ?? '',
      node: host?.name ?? '',
      step: stepOf(placed, place, at, move !== undefined),
      why: move === undefined ? null : sentenceOf(problem, move),
      in_place_of: move === undefined || move.unload.length === 0 ? null : move.unload.map(nameOf).join(', '),
      saves_ms: gain,
      loaded: place.holds === 'loaded',
      pinned: place.pinned,
      memory_mb: mb === 0 ? null : mb,
      load_ms: Math.round(place.loadMs),
    }
  })
  const worth = ({ saves_ms: saves }: PlannedPlace) => saves ?? Number.POSITIVE_INFINITY
  return rows.toSorted(
    (a, b) => order.indexOf(a.step) - order.indexOf(b.step) || (worth(a) === worth(b) ? 0 : worth(b) - worth(a)),
  )
}

/** The demand for each model, over the nodes of all owners. */
export function plannedModels(now: PlanNow | null): readonly PlannedModel[] {
  if (now === null) return []
  const { problem, chosen } = now.plan
  const here = (model: number, of: (place: PlanPlace, at: number) => boolean) =>
    problem.places.reduce((sum, place, at) => sum + Number(place.model === model && of(place, at)), 0)
  const all = problem.models.map((model, at): PlannedModel => {
    const { perS, calls, waited, waitMs, turnedAway } = model.demand
    return {
      model: model.modelId,
      calls_per_minute: Math.round(perS * 6_000) / 100,
      calls,
      waited_calls: waited,
      wait_ms: waited === 0 ? null : Math.round(waitMs / waited),
      turned_away: turnedAway,
      replicas: model.fixed + here(at, ({ holds }) => holds === 'loaded'),
      planned_replicas: model.fixed + here(at, (_, place) => chosen[place] === 1),
      wanted_replicas: wantedReplicas(model),
    }
  })
  return [...Map.groupBy(all, ({ model }) => model).values()]
    .map((own) => own.reduce(together))
    .toSorted((a, b) => b.calls_per_minute - a.calls_per_minute || (a.model < b.model ? -1 : 1))
    .slice(0, modelsMax)
}

/** The same model on nodes of two owners. */
function together(a: PlannedModel, b: PlannedModel): PlannedModel {
  const waited = a.waited_calls + b.waited_calls
  const waitMs = (a.wait_ms ?? 0) * a.waited_calls + (b.wait_ms ?? 0) * b.waited_calls
  return {
    model: a.model,
    calls_per_minute: a.calls_per_minute + b.calls_per_minute,
    calls: a.calls + b.calls,
    waited_calls: waited,
    wait_ms: waited === 0 ? null : Math.round(waitMs / waited),
    turned_away: a.turned_away + b.turned_away,
    replicas: a.replicas + b.replicas,
    planned_replicas: a.planned_replicas + b.planned_replicas,
    wanted_replicas: a.wanted_replicas + b.wanted_replicas,
  }
}

/** What the answer says beside its places. */
export function planHead(planner: MemoryPlanner) {
  const now = planner.last()
  return {
    mode: planner.mode,
    planned_at: now === null ? null : isoTime(now.atMs),
    exact: now?.plan.exact ?? false,
    models: [...plannedModels(now)],
  }
}
