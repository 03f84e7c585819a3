export type LeaseAnswer =
  | { readonly kind: 'taken'; readonly epoch: number }
  /** `waitMs` is the time until the pool has one more unit, or 0 if time does not help. */
  | { readonly kind: 'refused'; readonly waitMs: number }
  | { readonly kind: 'away' }

export interface LeaseWaiter {
  readonly units: number
  /** `performance.now()`. */
  readonly sinceMs: number
  readonly answer: (answer: LeaseAnswer) => void
}

/** The requests that wait for units of one lease, in the order of their arrival. */
export class LeaseQueue {
  private waiters: LeaseWaiter[] = []

  get length(): number {
    return this.waiters.length
  }

  /** The number of units that all waiting requests ask for. */
  get units(): number {
    return this.waiters.reduce((sum, waiter) => sum + waiter.units, 0)
  }

  /** The requests that wait now, without those that come later. */
  present(): ReadonlySet<LeaseWaiter> {
    return new Set(this.waiters)
  }

  /** Resolves with `away` if no answer comes within `ms`. */
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

  /** Serves waiting requests in order with `take`. A small request may overtake a large one that cannot be served. */
  serve(take: (units: number) => LeaseAnswer | null): void {
    if (this.waiters.length === 0) return
    this.waiters = this.waiters.filter((waiter) => {
      const taken = take(waiter.units)
      if (taken !== null) waiter.answer(taken)
      return taken === null
    })
  }

  /** Returns true if a request was waiting. */
  answer(answer: LeaseAnswer, to: (waiter: LeaseWaiter) => boolean): boolean {
    const answered = this.waiters.filter(to)
    this.waiters = this.waiters.filter((waiter) => !to(waiter))
    for (const waiter of answered) waiter.answer(answer)
    return answered.length > 0
  }
}
