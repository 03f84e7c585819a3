import { Packing } from '../../../src/machines/plan/packing.ts'
import type { PlanHost, PlanModel, PlanPlace, PlanProblem } from '../../../src/machines/plan/problem.ts'

export interface HostSpec {
  readonly memory: number | null
  /** Model ids in memory, and those that are being loaded. */
  readonly has?: readonly string[]
  readonly loading?: readonly string[]
  readonly pins?: readonly string[]
  readonly modelsMax?: number
}

export interface ModelSpec {
  /** Calls a minute. */
  readonly calls: number
  readonly mb?: number
  readonly loadMs?: number
  readonly slots?: number | null
  readonly durationMs?: number
  readonly group?: string
  readonly fixed?: number
  readonly hour?: Partial<PlanModel['demand']>
}

/** Every host can have every model, unless `only` says which. */
export function problemOf(
  models: Readonly<Record<string, ModelSpec>>,
  hosts: Readonly<Record<string, HostSpec>>,
  only: (model: string, host: string) => boolean = () => true,
): PlanProblem {
  const ids = Object.keys(models)
  const names = Object.keys(hosts)
  const places = names.flatMap((name, host) =>
    ids.flatMap((id, model): PlanPlace[] => {
      const { has = [], loading = [], pins = [] } = hosts[name] ?? {}
      const { mb = 1_000, loadMs = 10_000, group = null } = models[id] ?? {}
      if (!only(id, name)) return []
      const holds = has.includes(id) ? 'loaded' : loading.includes(id) ? 'loading' : 'away'
      const memoryMb = { memory: mb }
      const pinned = pins.includes(id)
      return [{ model, host, upstreamModelId: id, memoryMb, group, pinned, holds, loadMs, lastUsedMs: 0 }]
    }),
  )
  return {
    models: ids.map((modelId): PlanModel => {
      const { calls, slots = null, durationMs = 5_000, fixed = 0, hour = {} } = models[modelId] as ModelSpec
      const demand = {
        perS: calls / 60,
        pastPerS: null,
        calls: calls * 60,
        waited: 0,
        waitMs: 0,
        turnedAway: 0,
        ...hour,
      }
      return { modelId, demand, fixed, durationMs, slots }
    }),
    hosts: names.map((name): PlanHost => {
      const { memory = null, modelsMax = 1 } = hosts[name] as HostSpec
      return { nodeId: `node_${name}`, name, budgetsMb: memory === null ? null : { memory }, modelsMax }
    }),
    places,
  }
}

/** `host: model`, sorted, of what is chosen. */
export const chosenIn = ({ models, hosts, places }: PlanProblem, chosen: Uint8Array): readonly string[] =>
  places
    .flatMap(({ model, host }, at) => (chosen[at] === 1 ? [`${hosts[host]?.name}: ${models[model]?.modelId}`] : []))
    .toSorted()

/** What the choice is worth; null: it does not fit. */
export function worthOf(problem: PlanProblem, chosen: Uint8Array): number | null {
  const packing = new Packing(problem)
  for (const at of chosen.keys()) {
    if (chosen[at] !== 1 || packing.chosen[at] === 1) continue
    if (!packing.fits(at)) return null
    packing.add(at)
  }
  return packing.value
}

/** The worth of the best of all choices. */
export function bestWorth(problem: PlanProblem): number {
  const { length } = problem.places
  let best = Number.NEGATIVE_INFINITY
  for (let bits = 0; bits < 2 ** length; bits++) {
    const chosen = Uint8Array.from({ length }, (_, at) => (bits >> at) & 1)
    best = Math.max(best, worthOf(problem, chosen) ?? Number.NEGATIVE_INFINITY)
  }
  return best
}
