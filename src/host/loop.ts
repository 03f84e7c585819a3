import { type Backoff, backoffMs, jittered } from '../backoff.ts'
import { Alarm, type Clock, systemClock } from '../clock.ts'
import { within } from '../deadline.ts'
import type { Outage } from './outage.ts'

interface Work {
  /** `signal` aborts when the loop stops. */
  readonly run: (signal: AbortSignal) => unknown
  /** The wait after a run that failed, in place of the rhythm. */
  readonly backoff?: Backoff
  /** A run that takes longer has failed, and the loop goes on without it: a query may never settle (`deadline.ts`). */
  readonly boundMs?: number
  /** `failures`: in a row. Without this and `outage`, a run that throws is a defect of the program. */
  readonly onFailure?: (error: unknown, failures: number) => void
  readonly outage?: Outage
  readonly clock?: Clock
  readonly random?: () => number
}

type Rhythm =
  /** From the beginning of a run to the beginning of the next, which follows at once where a run takes longer. */
  | { readonly everyMs: number; readonly jitter?: number }
  /** From the end of a run, which took `tookMs`, to the beginning of the next. Infinite: it runs when asked, and not by itself. */
  | { readonly pauseMs: number | ((tookMs: number) => number) }

export type LoopOptions = Work & Rhythm

/** Work that is done again and again, one run at a time. It does not keep the process alive. */
export interface Loop {
  /** The first run is due as if one had just been. */
  start(): void
  /** Runs now, or joins the run under way. Resolves after the run and never rejects. Does nothing while stopped. */
  now(): Promise<void>
  /** The next run begins within `ms`, or as soon as the one under way has ended. */
  soon(ms: number): void
  /** Resolves when the run under way has ended, whose failure is not reported any more. The loop can be started again. */
  stop(): Promise<void>
}

export function loop(options: LoopOptions): Loop {
  return new RunningLoop(options)
}

const never = Number.POSITIVE_INFINITY

class RunningLoop implements Loop {
  private readonly clock: Clock
  private readonly alarm: Alarm
  private life: AbortController | null = null
  private running: Promise<void> | null = null
  private dueMs = never
  private failures = 0

  constructor(private readonly options: LoopOptions) {
    this.clock = options.clock ?? systemClock
    this.alarm = new Alarm(() => void this.now(), this.clock, false)
  }

  start(): void {
    if (this.life !== null) return
    this.life = new AbortController()
    this.soon(this.waitMs(0))
  }

  now(): Promise<void> {
    if (this.life === null || this.running !== null) return this.running ?? Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.running = promise
    this.alarm.clear()
    this.dueMs = never
    void this.turn(this.life.signal).finally(resolve)
    return promise
  }

  soon(ms: number): void {
    const dueMs = this.clock.now() + ms
    if (this.life === null || dueMs >= this.dueMs) return
    this.dueMs = dueMs
    // While a run is under way, its end sets the alarm.
    if (this.running === null) this.alarm.set(ms)
  }

  stop(): Promise<void> {
    this.life?.abort()
    this.life = null
    this.alarm.clear()
    this.dueMs = never
    return this.running ?? Promise.resolve()
  }

  private async turn(stopped: AbortSignal): Promise<void> {
    const { run, boundMs, outage } = this.options
    const beganMs = this.clock.now()
    try {
      const done = run(stopped)
      await (boundMs === undefined ? done : within(boundMs, Promise.resolve(done), this.clock))
      this.failures = 0
      outage?.worked()
    } catch (error) {
      if (!stopped.aborted) this.failed(error)
    } finally {
      this.running = null
      this.next(this.clock.now() - beganMs)
    }
  }

  private failed(error: unknown): void {
    const { onFailure, outage } = this.options
    this.failures++
    onFailure?.(error, this.failures)
    outage?.failed(error)
    if (onFailure === undefined && outage === undefined) throw error
  }

  private next(tookMs: number): void {
    const wishedMs = this.dueMs - this.clock.now()
    this.dueMs = never
    this.soon(Math.max(0, Math.min(wishedMs, this.waitMs(tookMs))))
  }

  private waitMs(tookMs: number): number {
    const { options } = this
    const { backoff, random = Math.random } = options
    if (backoff !== undefined && this.failures > 0) return backoffMs(backoff, this.failures)
    if ('everyMs' in options) return jittered(options.everyMs, options.jitter ?? 0, random()) - tookMs
    return typeof options.pauseMs === 'number' ? options.pauseMs : options.pauseMs(tookMs)
  }
}
