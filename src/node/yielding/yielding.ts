import { type Clock, systemClock } from '../../clock.ts'
import { type Loop, loop } from '../../host/loop.ts'
import { failureName, type Log } from '../../log.ts'
import { minuteMs, secondMs } from '../../time.ts'
import type { NamedLook } from './registry.ts'

export interface YieldTimes {
  readonly everyMs: number
  /** How long one look may take. */
  readonly lookMs: number
  /** How long nothing may speak for the owner before the computer works for others again. */
  readonly quietMs: number
}
export const yieldTimes: YieldTimes = { everyMs: 5 * secondMs, lookMs: 2 * secondMs, quietMs: minuteMs }

export interface YieldingOptions {
  readonly looks: readonly NamedLook[]
  readonly changed: () => void
  readonly log: Log
  readonly times?: YieldTimes
  readonly clock?: Clock
}

/** Leaves the computer to its owner while a probe says so (§39): nothing is cut, and nothing new comes from the gateway. */
export class Yielding {
  /** The probes that say so; those of the last minute while it has not been quiet for long enough. Empty: it works for others. */
  reasons: readonly string[] = []
  private lastSeenMs = Number.NEGATIVE_INFINITY
  /** Probes that have failed and have not worked since: each is told once. */
  private readonly broken = new Set<string>()
  private readonly looking: Loop

  constructor(private readonly options: YieldingOptions) {
    const { clock = systemClock, times = yieldTimes } = options
    this.looking = loop({ everyMs: times.everyMs, run: (signal) => this.look(signal), clock })
  }

  /** Resolves after the first look: an agent does not begin with work that its owner would not have. */
  start(): Promise<void> {
    return this.options.looks.length === 0 ? Promise.resolve() : this.looking.startNow()
  }

  stop(): Promise<void> {
    return this.looking.stop()
  }

  private async look(stopped: AbortSignal): Promise<void> {
    const { looks, times = yieldTimes, clock = systemClock } = this.options
    const found = await Promise.all(looks.map(async (each) => ((await this.sees(each, stopped)) ? [each.name] : [])))
    if (stopped.aborted) return
    const seen = found.flat()
    if (seen.length > 0) this.lastSeenMs = clock.now()
    const isQuiet = clock.now() - this.lastSeenMs >= times.quietMs
    this.adopt(seen.length > 0 ? seen : isQuiet ? [] : this.reasons)
  }

  private adopt(reasons: readonly string[]): void {
    if (reasons.join() === this.reasons.join()) return
    this.reasons = reasons
    this.options.log.info(reasons.length === 0 ? 'yield_ended' : 'yielding', { reasons: reasons.join(' ') })
    this.options.changed()
  }

  /** A probe that cannot tell does not speak for the owner. */
  private async sees({ name, look }: NamedLook, stopped: AbortSignal): Promise<boolean> {
    const { log, times = yieldTimes } = this.options
    try {
      const sees = await look(AbortSignal.any([stopped, AbortSignal.timeout(times.lookMs)]))
      this.broken.delete(name)
      return sees
    } catch (error) {
      if (!this.broken.has(name) && !stopped.aborted)
        log.warn('yield_probe_failed', { probe: name, failure: failureName(error) })
      this.broken.add(name)
      return false
    }
  }
}
