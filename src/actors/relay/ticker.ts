import { Roster } from '../../roster.ts'

/** Something with deadlines of its own; looked at a few times a second while it lives. */
export interface Ticking {
  /** In the ticker; -1: it does not tick. */
  tickPlace: number
  /** `nowMs`: `performance.now()`. Must not throw. */
  tick(nowMs: number): void
}

/**
 * One timer for all running calls. Thousands of streams reset their deadlines with every chunk: a number written per
 * chunk and one walk a tick are cheaper than a timer set and cleared per chunk. Deadlines are met within `periodMs`.
 */
export class Ticker {
  static readonly periodMs = 50
  private readonly items = new Roster<'tickPlace', Ticking>('tickPlace')
  private timer: ReturnType<typeof setInterval> | null = null

  add(item: Ticking): void {
    this.items.add(item)
    this.timer ??= setInterval(() => this.walk(), Ticker.periodMs)
  }

  delete(item: Ticking): void {
    this.items.delete(item)
  }

  /** Stops by itself when nothing runs, not at every end of a lone call: starting a timer costs as much as a request. */
  private walk(): void {
    if (this.items.size === 0 && this.timer !== null) {
      clearInterval(this.timer)
      this.timer = null
    }
    const now = performance.now()
    for (const item of this.items) item.tick(now)
  }
}
