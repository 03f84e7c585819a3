import { type Clock, systemClock } from '../clock.ts'

/** Reports once that something is away, however often it fails, and once that it is back. */
export class Outage {
  private away = false

  constructor(
    private readonly onAway: (error: unknown) => void,
    private readonly onBack: () => void = () => {},
  ) {}

  failed(error: unknown): void {
    if (this.away) return
    this.away = true
    this.onAway(error)
  }

  worked(): void {
    if (!this.away) return
    this.away = false
    this.onBack()
  }
}

/** The first call gets through, and after it one per `ms`. */
export function atMostEvery<A extends readonly unknown[]>(
  ms: number,
  report: (...args: A) => void,
  clock: Clock = systemClock,
): (...args: A) => void {
  let reportedMs = Number.NEGATIVE_INFINITY
  return (...args) => {
    const nowMs = clock.now()
    if (nowMs - reportedMs < ms) return
    reportedMs = nowMs
    report(...args)
  }
}
