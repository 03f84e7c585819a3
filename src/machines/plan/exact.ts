import type { Packing } from './packing.ts'

/** Beyond these the search would take too long. */
export const exactHostsMax = 12
export const exactModelsMax = 24
/** Of the search: about 50 ms. */
const stepsMax = 20_000
/** Plans that differ by less are equal, ms. */
const equalMs = 1e-3

/** A further copy of a model, at its best: nothing in the plan is worth more for the memory that it takes. */
interface Item {
  readonly model: number
  readonly copy: number
  readonly gain: number
  readonly weight: number
}

/** All further copies, by what they are worth for their memory. */
function itemsOf(packing: Packing, open: readonly number[]): readonly Item[] {
  const { places } = packing.problem
  const items = packing.byModel.flatMap((all, model) => {
    const own = all.filter((at) => open.includes(at))
    const weight = Math.min(...own.map((at) => packing.weights[at] ?? 1))
    const loadMs = Math.min(...own.map((at) => (places[at]?.holds === 'away' ? places[at].loadMs : 0)))
    const from = packing.copies[model] ?? 0
    return own.map((_, further) => {
      const copy = from + further
      return { model, copy, gain: packing.marginal(model, copy) - loadMs, weight }
    })
  })
  return items.filter(({ gain }) => gain > 0).toSorted((a, b) => b.gain / b.weight - a.gain / a.weight)
}

/** Branch and bound over the places, the best first. */
class Search {
  steps = 0
  best: Uint8Array
  bestValue: number
  private readonly order: readonly number[]
  private readonly items: readonly Item[]
  /** For each model: how many of its places lie at or behind each step. */
  private readonly left: readonly Int32Array[]

  constructor(
    private readonly packing: Packing,
    start: { readonly chosen: Uint8Array; readonly value: number },
  ) {
    this.best = start.chosen
    this.bestValue = start.value
    const { places, models } = packing.problem
    const worth = (at: number) => packing.gainOf(at) / (packing.weights[at] ?? 1)
    const open = places.flatMap((_, at) => (packing.chosen[at] === 0 && packing.gainOf(at) > 0 ? [at] : []))
    this.order = open.toSorted((a, b) => worth(b) - worth(a) || a - b)
    this.items = itemsOf(packing, open)
    this.left = models.map((_, model) => {
      const counts = new Int32Array(this.order.length + 1)
      for (let step = this.order.length - 1; step >= 0; step--) {
        counts[step] = (counts[step + 1] ?? 0) + Number(places[this.order[step] ?? 0]?.model === model)
      }
      return counts
    })
  }

  /** False: the steps did not suffice, and a better plan may exist. */
  run(): boolean {
    this.visit(0)
    return this.steps < stepsMax
  }

  private visit(step: number): void {
    const { packing, order } = this
    if (packing.value > this.bestValue + equalMs) {
      this.bestValue = packing.value
      this.best = packing.chosen.slice()
    }
    if (step === order.length || this.steps >= stepsMax) return
    if (packing.value + this.bound(step) <= this.bestValue + equalMs) return
    this.steps++
    const at = order[step] ?? 0
    // What is worth less with each copy cannot come to pay behind one.
    if (packing.gainOf(at) > 0 && packing.fits(at)) {
      packing.add(at)
      this.visit(step + 1)
      packing.remove(at)
    }
    this.visit(step + 1)
  }

  /** No choice of what is left is worth more: as if all memory were one, and models could be cut. */
  private bound(step: number): number {
    let room = this.packing.freeShares
    let gain = 0
    for (const item of this.items) {
      const from = this.packing.copies[item.model] ?? 0
      if (item.copy < from || item.copy >= from + (this.left[item.model]?.[step] ?? 0)) continue
      if (item.weight >= room) return gain + item.gain * (room / item.weight)
      room -= item.weight
      gain += item.gain
    }
    return gain
  }
}

/** Improves on `start`, from the same packing with only its forced places. True: no plan is better than `best`. */
export function packExactly(
  packing: Packing,
  start: { readonly chosen: Uint8Array; readonly value: number },
): { readonly best: Uint8Array; readonly proved: boolean } {
  const search = new Search(packing, start)
  const proved = search.run()
  return { best: search.best, proved }
}
