import type { Packing } from './packing.ts'

/** The most rounds of swaps. */
const passesMax = 4
/** Less is no gain: ms. */
const gainMsMin = 1e-6

/** Adds what is worth most for the memory that it takes, until nothing more fits or pays. */
export function fill(packing: Packing, among: readonly number[]): void {
  const worth = (at: number) => packing.gainOf(at) / (packing.weights[at] ?? 1)
  const left = among
    .filter((at) => packing.chosen[at] === 0 && packing.gainOf(at) > gainMsMin && packing.fits(at))
    .map((at) => ({ at, worth: worth(at) }))
    // Of equals the first in the list: the same facts make the same plan.
    .toSorted((a, b) => a.worth - b.worth || b.at - a.at)
  for (let best = left.pop(); best !== undefined; best = left.pop()) {
    const { at } = best
    if (packing.gainOf(at) <= gainMsMin || !packing.fits(at)) continue
    // What was added since has made it worth less: another one may come first.
    const now = worth(at)
    if (now < best.worth && now < (left.at(-1)?.worth ?? 0)) insert(left, { at, worth: now })
    else packing.add(at)
  }
}

function insert(sorted: { at: number; worth: number }[], item: { at: number; worth: number }): void {
  let [low, high] = [0, sorted.length]
  while (low < high) {
    const middle = (low + high) >> 1
    if ((sorted[middle]?.worth ?? 0) < item.worth) low = middle + 1
    else high = middle
  }
  sorted.splice(low, 0, item)
}

/** What must leave the host so that `at` fits, cheapest first; null: it cannot. */
function victimsFor(packing: Packing, at: number): readonly number[] | null {
  const place = packing.problem.places[at]
  const host = place === undefined ? [] : (packing.byHost[place.host] ?? [])
  const loss = (other: number) => {
    packing.remove(other)
    const gain = packing.gainOf(other)
    packing.add(other)
    return gain / (packing.weights[other] ?? 1)
  }
  const others = host
    .filter((other) => packing.chosen[other] === 1 && !packing.forced.has(other))
    .map((other) => ({ other, loss: loss(other), rival: isRival(packing, other, at) }))
    .toSorted((a, b) => Number(b.rival) - Number(a.rival) || a.loss - b.loss)
  const gone: number[] = []
  for (const { other } of others) {
    if (packing.fits(at)) break
    packing.remove(other)
    gone.push(other)
  }
  const fits = packing.fits(at)
  // Models whose room is not needed after all stay.
  for (const other of gone.toReversed()) packing.add(other)
  return fits ? gone : null
}

function isRival({ problem: { places } }: Packing, other: number, at: number): boolean {
  const group = places[at]?.group ?? null
  return group !== null && places[other]?.group === group
}

/** Puts a place in for others, which go elsewhere where that pays. False: it was no gain, and all is as it was. */
function swap(packing: Packing, at: number): boolean {
  const before = packing.value
  const victims = victimsFor(packing, at)
  if (victims === null) return false
  for (const victim of victims) packing.remove(victim)
  packing.add(at)
  const moved = victims.flatMap((victim) => rehome(packing, victim) ?? [])
  if (packing.value > before + gainMsMin) return true
  for (const place of moved) packing.remove(place)
  packing.remove(at)
  for (const victim of victims) packing.add(victim)
  return false
}

function rehome(packing: Packing, victim: number): number | null {
  const model = packing.problem.places[victim]?.model ?? -1
  let best: number | null = null
  for (const at of packing.byModel[model] ?? []) {
    if (packing.chosen[at] === 1 || packing.gainOf(at) <= gainMsMin || !packing.fits(at)) continue
    if (best === null || packing.gainOf(at) > packing.gainOf(best)) best = at
  }
  if (best !== null) packing.add(best)
  return best
}

/** A good plan for any size: what pays most for its memory first, then exchanges until none is a gain. */
export function packGreedily(packing: Packing): void {
  const all = packing.problem.places.map((_, at) => at)
  fill(packing, all)
  for (let pass = 0; pass < passesMax; pass++) {
    let better = false
    for (const at of all) {
      if (packing.chosen[at] === 1 || packing.gainOf(at) <= gainMsMin) continue
      if (swap(packing, at)) better = true
    }
    if (!better) return
    fill(packing, all)
  }
}
