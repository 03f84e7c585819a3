/** Time as a value: a test gives one that it turns by hand. */
export interface Clock {
  /** Never goes back, ms. */
  now(): number
  /** Calls back once, after `ms`; returns what cancels it. Unless it `holds` the process, the process may end before. */
  after(ms: number, ring: () => void, holds: boolean): () => void
}

export const systemClock: Clock = {
  now: () => performance.now(),
  after: (ms, ring, holds) => {
    const timer = setTimeout(ring, ms)
    if (!holds) timer.unref()
    return () => clearTimeout(timer)
  },
}

/** Resolves after `ms`, or when the signal aborts. */
export function sleep(ms: number, signal: AbortSignal, clock: Clock = systemClock): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve()
    const wake = () => {
      cancel()
      signal.removeEventListener('abort', wake)
      resolve()
    }
    const cancel = clock.after(ms, wake, true)
    signal.addEventListener('abort', wake)
  })
}

/** A timer that is set at most once at a time. */
export class Alarm {
  private cancel: (() => void) | null = null

  constructor(
    private readonly ring: () => void,
    private readonly clock: Clock = systemClock,
    private readonly holds = true,
  ) {}

  get isSet(): boolean {
    return this.cancel !== null
  }

  /** Rings after `ms`, and not when it was to ring before. */
  set(ms: number): void {
    this.clear()
    const ring = () => {
      this.cancel = null
      this.ring()
    }
    this.cancel = this.clock.after(ms, ring, this.holds)
  }

  clear(): void {
    this.cancel?.()
    this.cancel = null
  }
}
