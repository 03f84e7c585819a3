export type LeaseAnswer =
  | { readonly kind: 'taken'; readonly epoch: number }
  /** `waitMs`: until the pool has one more; 0 where time brings nothing. */
  | { readonly kind: 'refused'; readonly waitMs: number }
  | { readonly kind: 'away' }

export interface LeaseWaiter {
  readonly units: number
  /** `performance.now()`. */
  readonly sinceMs: number
  readonly answer: (answer: LeaseAnswer) => void
}

/** Who waits for units of one lease, in the order of arrival. */
export class LeaseQueue {
  private waiters: LeaseWaiter[] = []

  get length(): number {
    return this.waiters.length
  }

  /** All that is asked for, units. */
  get units(): number {
    return this.waiters.reduce((sum, waiter) => sum + waiter.units, 0)
  }

  /** Who waits now; who comes later is not among them. */
  present(): ReadonlySet<LeaseWaiter> {
    return new Set(this.waiters)
  }

  /** Resolves with `away` when nobody answers within `ms`. */
  join(units: number, ms: number): Promise<LeaseAnswer> {
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.answer({ kind: 'away' }, (other) => other === waiter), ms)
      const waiter: LeaseWaiter = {
        units,
        sinceMs: performance.now(),
        answer: (answer) => {
          clearTimeout(timer)
          resolve(answer)
        },
      }
      this.waiters.push(waiter)
    })
  }

  /** Whoever is served by `take`, first come first served; a small request may pass a large one that cannot be. */
  serve(take: (units: number) => LeaseAnswer | null): void {
    if (this.waiters.length === 0) return
    this.waiters = this.waiters.filter((waiter) => {
      const taken = take(waiter.units)
      if (taken !== null) waiter.answer(taken)
      return taken === null
    })
  }

  /** True when there was somebody to answer. */
  answer(answer: LeaseAnswer, to: (waiter: LeaseWaiter) => boolean): boolean {
    const answered = this.waiters.filter(to)
    this.waiters = this.waiters.filter((waiter) => !to(waiter))
    for (const waiter of answered) waiter.answer(answer)
    return answered.length > 0
  }
}
