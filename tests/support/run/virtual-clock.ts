import type { Clock } from '../../../src/clock.ts'
import { turn } from './turn.ts'

interface Timer {
  readonly atMs: number
  readonly ring: () => void
}

/** A clock that stands still until a test turns it on. */
export class VirtualClock implements Clock {
  private nowMs = 0
  private readonly timers = new Set<Timer>()

  now(): number {
    return this.nowMs
  }

  after(ms: number, ring: () => void): () => void {
    const timer = { atMs: this.nowMs + Math.max(0, ms), ring }
    this.timers.add(timer)
    return () => void this.timers.delete(timer)
  }

  /** How long it is to each timer that is set, the next first. */
  get waits(): readonly number[] {
    return [...this.timers].map(({ atMs }) => atMs - this.nowMs).sort((a, b) => a - b)
  }

  /** Turns the clock on, from timer to timer; what each of them resolves runs before the next. */
  async pass(ms: number): Promise<void> {
    const untilMs = this.nowMs + ms
    await turn()
    for (let timer = this.next(untilMs); timer !== undefined; timer = this.next(untilMs)) {
      this.timers.delete(timer)
      this.nowMs = timer.atMs
      timer.ring()
      await turn()
    }
    this.nowMs = untilMs
  }

  private next(untilMs: number): Timer | undefined {
    const due = [...this.timers].filter(({ atMs }) => atMs <= untilMs)
    return due.sort((a, b) => a.atMs - b.atMs)[0]
  }
}
