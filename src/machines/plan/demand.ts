import { minuteMs, secondMs } from '../../time.ts'

const stepMs = 15 * secondMs
const stepsKept = 240
/** The age at which a call's weight has fallen by a factor of e. */
const decayMs = 15 * minuteMs
/** What happened in the last steps counts alone where chance does not explain that it differs from the mean. */
const recentSteps = 5
/** How many standard deviations of a Poisson process count as no chance. */
const deviations = 3
/** The shortest span over which a rate is computed: else the first call of a process would count as a steady stream. */
const spanMsMin = minuteMs

/** What one process has seen of a model. Sums of several processes add up. */
export interface DemandSums {
  readonly calls: number
  /** Calls that waited for a load, and how long in all, ms. */
  readonly waited: number
  readonly waitMs: number
  /** Requests that found no room. */
  readonly turnedAway: number
  /** Calls, each less the older it is. */
  readonly decayed: number
  /** Calls of the last steps alone. */
  readonly recent: number
}

/** How long was watched, ms, weighted as `decayed` and as `recent` are. */
export interface DemandSpan {
  readonly decayedMs: number
  readonly recentMs: number
}

type Count = 'calls' | 'waited' | 'waitMs' | 'turnedAway'
const counts: readonly Count[] = ['calls', 'waited', 'waitMs', 'turnedAway']

export const noDemand: DemandSums = { calls: 0, waited: 0, waitMs: 0, turnedAway: 0, decayed: 0, recent: 0 }

export function addedDemand(a: DemandSums, b: DemandSums): DemandSums {
  return {
    calls: a.calls + b.calls,
    waited: a.waited + b.waited,
    waitMs: a.waitMs + b.waitMs,
    turnedAway: a.turnedAway + b.turnedAway,
    decayed: a.decayed + b.decayed,
    recent: a.recent + b.recent,
  }
}

const stepOf = (nowMs: number) => Math.floor(nowMs / stepMs)
const weightOf = (age: number) => Math.exp((-age * stepMs) / decayMs)

/** The demand for one model in steps of the last hour. */
export class ModelDemand {
  private readonly steps: Readonly<Record<Count, Float64Array>> = {
    calls: new Float64Array(stepsKept),
    waited: new Float64Array(stepsKept),
    waitMs: new Float64Array(stepsKept),
    turnedAway: new Float64Array(stepsKept),
  }
  /** The newest step. */
  private step: number

  constructor(nowMs: number) {
    this.step = stepOf(nowMs)
  }

  /** Unix ms. */
  get lastMs(): number {
    return this.step * stepMs
  }

  add(count: Count, by: number, nowMs: number): void {
    this.advance(nowMs)
    const of = this.steps[count]
    const at = this.step % stepsKept
    of[at] = (of[at] ?? 0) + by
  }

  sums(nowMs: number): DemandSums {
    const newest = stepOf(nowMs)
    const sums = { ...noDemand }
    for (let age = 0; age < stepsKept; age++) {
      const step = newest - age
      if (step > this.step) continue
      if (step <= this.step - stepsKept) break
      const at = step % stepsKept
      for (const count of counts) sums[count] += this.steps[count][at] ?? 0
      const calls = this.steps.calls[at] ?? 0
      sums.decayed += calls * weightOf(age)
      if (age < recentSteps) sums.recent += calls
    }
    return sums
  }

  private advance(nowMs: number): void {
    const newest = stepOf(nowMs)
    if (newest <= this.step) return
    for (let step = Math.max(this.step + 1, newest - stepsKept + 1); step <= newest; step++) {
      for (const count of counts) this.steps[count][step % stepsKept] = 0
    }
    this.step = newest
  }
}

/** How long a process has watched that began at `sinceMs`. */
export function watchedSpan(sinceMs: number, nowMs: number): DemandSpan {
  const intoMs = nowMs - stepOf(nowMs) * stepMs
  const ageMs = Math.max(spanMsMin, Math.min(nowMs - sinceMs, stepsKept * stepMs))
  let decayedMs = Math.min(intoMs, ageMs)
  for (let age = 1; intoMs + (age - 1) * stepMs < ageMs && age < stepsKept; age++) {
    decayedMs += Math.min(stepMs, ageMs - intoMs - (age - 1) * stepMs) * weightOf(age)
  }
  return { decayedMs, recentMs: Math.min(ageMs, intoMs + (recentSteps - 1) * stepMs) }
}

/**
 * Calls per second: the decayed mean, and where the last minute differs from it by more than chance does, that minute alone.
 * So a shift of the demand is followed at once, and a pause between two calls is no shift.
 */
export function rateOf({ decayed, recent }: DemandSums, { decayedMs, recentMs }: DemandSpan): number {
  const mean = decayed / decayedMs
  const expected = mean * recentMs
  const shifted = Math.abs(recent - expected) > deviations * Math.sqrt(Math.max(1, expected))
  return (shifted ? recent / recentMs : mean) * secondMs
}
