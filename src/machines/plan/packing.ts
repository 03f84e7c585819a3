import { type PlanProblem, waitMsOf } from './problem.ts'

/** The memory that a place takes of its host, by the device's place in the host's budget. */
type Need = readonly (readonly [device: number, mb: number])[]

/** Budgets in numbers: a host that tells none has one device on which each model takes one unit. */
interface Measured {
  readonly budgets: readonly (readonly number[])[]
  readonly needs: readonly Need[]
  /** The sum of the shares of its devices that a place takes. */
  readonly weights: readonly number[]
}

function measured({ hosts, places }: PlanProblem): Measured {
  const devices = hosts.map(({ budgetsMb }) => (budgetsMb === null ? null : Object.keys(budgetsMb)))
  const budgets = hosts.map(({ budgetsMb, modelsMax }) =>
    budgetsMb === null ? [Math.max(1, modelsMax)] : Object.values(budgetsMb),
  )
  const needs = places.map(({ host, memoryMb }): Need => {
    const names = devices[host]
    if (names == null) return [[0, 1]]
    return Object.entries(memoryMb).map(([device, mb]) => [names.indexOf(device), mb])
  })
  const weights = needs.map((need, at) => {
    const of = budgets[places[at]?.host ?? 0] ?? []
    return need.reduce((sum, [device, mb]) => sum + mb / (of[device] ?? Number.MIN_VALUE), 0)
  })
  return { budgets, needs, weights }
}

/** Which models are where, as it is put together: what fits, and what each place is worth, ms of waiting. */
export class Packing {
  readonly chosen: Uint8Array
  /** Of each model, with the fixed ones. */
  readonly copies: Int32Array
  /** Waiting that is saved, less what the loads take, ms. */
  value = 0
  readonly weights: readonly number[]
  /** Shares of devices that are free, of all hosts together. */
  freeShares: number
  /** How long a load of each model takes where it takes least, ms. */
  readonly loadMs: Float64Array
  /** The places of each host. */
  readonly byHost: readonly (readonly number[])[]
  readonly byModel: readonly (readonly number[])[]
  /** Nobody may take these away: pinned, or being loaded. */
  readonly forced: ReadonlySet<number>
  private readonly budgets: readonly (readonly number[])[]
  private readonly needs: readonly Need[]
  private readonly used: readonly Float64Array[]
  private readonly groups: readonly Map<string, number>[]

  constructor(readonly problem: PlanProblem) {
    const { models, hosts, places } = problem
    const { budgets, needs, weights } = measured(problem)
    this.budgets = budgets
    this.needs = needs
    this.weights = weights
    this.used = budgets.map(({ length }) => new Float64Array(length))
    this.groups = hosts.map(() => new Map<string, number>())
    this.chosen = new Uint8Array(places.length)
    this.copies = Int32Array.from(models, ({ fixed }) => fixed)
    this.freeShares = budgets.reduce((sum, { length }) => sum + length, 0)
    const byHost: number[][] = hosts.map(() => [])
    const byModel: number[][] = models.map(() => [])
    this.loadMs = new Float64Array(models.length).fill(Number.POSITIVE_INFINITY)
    for (const [at, { host, model, loadMs }] of places.entries()) {
      byHost[host]?.push(at)
      byModel[model]?.push(at)
      this.loadMs[model] = Math.min(this.loadMs[model] ?? 0, loadMs)
    }
    this.byHost = byHost
    this.byModel = byModel
    const forced = places.flatMap(({ pinned, holds }, at) => (pinned || holds === 'loading' ? [at] : []))
    // What cannot be is not promised: a pin beyond the memory is left out.
    this.forced = new Set(forced.filter((at) => this.fits(at) && this.add(at)))
  }

  fits(at: number): boolean {
    const { host, group } = this.at(at)
    if (group !== null && this.groups[host]?.has(group) === true) return false
    const used = this.used[host]
    const budget = this.budgets[host]
    return (this.needs[at] ?? []).every(([device, mb]) => (used?.[device] ?? 0) + mb <= (budget?.[device] ?? 0) + slack)
  }

  /** Of this place if it is added now, ms. */
  gainOf(at: number): number {
    const { model, holds, loadMs } = this.at(at)
    return this.marginal(model, this.copies[model] ?? 0) - (holds === 'away' ? loadMs : 0)
  }

  /** What one more copy beside `copies` saves, ms. */
  marginal(model: number, copies: number): number {
    const of = this.problem.models[model]
    if (of === undefined) return 0
    const loadMs = this.loadMs[model] ?? 0
    return waitMsOf(of, copies, loadMs) - waitMsOf(of, copies + 1, loadMs)
  }

  add(at: number): true {
    this.value += this.gainOf(at)
    this.put(at, 1)
    return true
  }

  remove(at: number): void {
    this.put(at, -1)
    this.value -= this.gainOf(at)
  }

  private put(at: number, sign: 1 | -1): void {
    const { host, model, group } = this.at(at)
    this.chosen[at] = sign === 1 ? 1 : 0
    this.copies[model] = (this.copies[model] ?? 0) + sign
    const used = this.used[host]
    if (used !== undefined)
      for (const [device, mb] of this.needs[at] ?? []) used[device] = (used[device] ?? 0) + sign * mb
    this.freeShares -= sign * (this.weights[at] ?? 0)
    if (group === null) return
    if (sign === 1) this.groups[host]?.set(group, at)
    else this.groups[host]?.delete(group)
  }

  private at(at: number) {
    const place = this.problem.places[at]
    if (place === undefined) throw new Error('no such place')
    return place
  }
}

/** Sums of halves and the like, MB. */
const slack = 1e-6
