import { Packing } from './packing.ts'
import type { PlanPlace, PlanProblem } from './problem.ts'

/** A model to load, and what leaves memory for it. */
export interface PlanMove {
  /** Places in the list of the problem. */
  readonly load: number
  readonly unload: readonly number[]
  /** Waiting that it saves within the horizon, less its load, ms. */
  readonly gainMs: number
}

/** One host's way from what it has to what the plan wants, the most useful load first. */
function movesOn(
  { problem, byHost }: Packing,
  chosen: Uint8Array,
  host: number,
  gainOf: (at: number) => number,
): PlanMove[] {
  const here = byHost[host] ?? []
  const place = (at: number) => problem.places[at] as PlanPlace
  const wanted = here
    .filter((at) => chosen[at] === 1 && place(at).holds === 'away')
    .toSorted((a, b) => gainOf(b) - gainOf(a) || a - b)
  if (wanted.length === 0) return []
  // What is in memory stays until something needs its room: the least useful goes first.
  const stays = new Set(here.filter((at) => place(at).holds !== 'away'))
  const spare = here
    .filter((at) => stays.has(at) && chosen[at] === 0)
    .toSorted((a, b) => useOf(problem, a) - useOf(problem, b) || place(a).lastUsedMs - place(b).lastUsedMs)
  const room = memoryOf(problem, host)
  for (const at of stays) room.take(place(at))
  return wanted.flatMap((load) => {
    const unload: number[] = []
    const rivals = spare.filter((at) => place(at).group !== null && place(at).group === place(load).group)
    for (const at of [...rivals, ...spare]) {
      if (!stays.has(at) || (room.fits(place(load)) && !rivals.includes(at))) continue
      stays.delete(at)
      room.free(place(at))
      unload.push(at)
    }
    if (!room.fits(place(load))) return []
    room.take(place(load))
    return [{ load, unload, gainMs: gainOf(load) }]
  })
}

const useOf = ({ models, places }: PlanProblem, at: number) => {
  const place = places[at]
  return place === undefined ? 0 : (models[place.model]?.demand.perS ?? 0) * place.loadMs
}

/** The memory of one host, without the worth of anything. */
function memoryOf({ hosts }: PlanProblem, host: number) {
  const { budgetsMb = null, modelsMax = 1 } = hosts[host] ?? {}
  const used = new Map<string, number>()
  let models = 0
  const add = ({ memoryMb }: PlanPlace, sign: 1 | -1) => {
    models += sign
    for (const [device, mb] of Object.entries(memoryMb)) used.set(device, (used.get(device) ?? 0) + sign * mb)
  }
  return {
    take: (place: PlanPlace) => add(place, 1),
    free: (place: PlanPlace) => add(place, -1),
    fits: ({ memoryMb }: PlanPlace) =>
      budgetsMb === null
        ? models < Math.max(1, modelsMax)
        : Object.entries(memoryMb).every(([device, mb]) => (used.get(device) ?? 0) + mb <= (budgetsMb[device] ?? 0)),
  }
}

/** What is to be done for the plan, the most useful first. */
export function movesOf(problem: PlanProblem, chosen: Uint8Array): readonly PlanMove[] {
  const packing = new Packing(problem)
  for (const at of chosen.keys()) if (chosen[at] === 1 && packing.chosen[at] === 0) packing.add(at)
  /** Of one load, if all else is as planned. */
  const gainOf = (at: number) => {
    if (packing.forced.has(at)) return Number.POSITIVE_INFINITY
    packing.remove(at)
    const gain = packing.gainOf(at)
    packing.add(at)
    return gain
  }
  return problem.hosts
    .flatMap((_, host) => movesOn(packing, chosen, host, gainOf))
    .toSorted((a, b) => b.gainMs - a.gainMs || a.load - b.load)
}
