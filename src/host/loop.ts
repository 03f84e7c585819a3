import { type Backoff, backoffMs, jittered } from '../backoff.ts'
import { Alarm, type Clock, sleep, systemClock } from '../clock.ts'
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
  readonly clock?: Clock | undefined
  readonly random?: () => number
}

type Rhythm =
  /** From the beginning of a run to the beginning of the next, which follows at once where a run takes longer. */
  | { readonly everyMs: number; readonly jitter?: number }
  /** From the end of a run, which took `tookMs`, to the beginning of the next. Infinite: it runs when asked, and not by itself. */
  | { readonly pauseMs: number | ((tookMs: number) => number) }

export type LoopOptions = Work & Rhythm

const never = Number.POSITIVE_INFINITY

/** Work that is done again and again, one run at a time. It does not keep the process alive. */
export class Loop {
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

  /** The first run is due as if one had just been. */
  start(): void {
    if (this.life !== null) return
    this.life = new AbortController()
    this.soon(this.waitMs(0))
  }

  /** Starts, with the first run at once, and resolves after it. */
  startNow(): Promise<void> {
    this.start()
    return this.now()
  }

  /** Runs now, or joins the run under way. Resolves after the run and never rejects. Does nothing while stopped. */
  now(): Promise<void> {
    if (this.life === null || this.running !== null) return this.running ?? Promise.resolve()
    const { promise, resolve } = Promise.withResolvers<void>()
    this.running = promise
    this.alarm.clear()
    this.dueMs = never
    void this.turn(this.life.signal).finally(resolve)
    return promise
  }

  /** The next run begins within `ms`, or as soon as the one under way has ended. */
  soon(ms: number): void {
    const dueMs = this.clock.now() + ms
    if (this.life === null || dueMs >= this.dueMs) return
    this.dueMs = dueMs
    // While a run is under way, its end sets the alarm.
    if (this.running === null) this.alarm.set(ms)
  }

  /** Resolves when the run under way has ended, whose failure is not reported any more. The loop can be started again. */
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
      const wishedMs = this.dueMs - this.clock.now()
      this.dueMs = never
      this.soon(Math.max(0, Math.min(wishedMs, this.waitMs(this.clock.now() - beganMs))))
    }
  }

  private failed(error: unknown): void {
    const { onFailure, outage } = this.options
    this.failures++
    onFailure?.(error, this.failures)
    outage?.failed(error)
    if (onFailure === undefined && outage === undefined) throw error
  }

  private waitMs(tookMs: number): number {
    const { options } = this
    const { backoff, random = Math.random } = options
    if (backoff !== undefined && this.failures > 0) return backoffMs(backoff, this.failures)
    if ('everyMs' in options) return jittered(options.everyMs, options.jitter ?? 0, random()) - tookMs
    return typeof options.pauseMs === 'number' ? options.pauseMs : options.pauseMs(tookMs)
  }
}

export const loop = (options: LoopOptions): Loop => new Loop(options)

export interface RetryPolicy {
  readonly backoff: Backoff
  /** Called after each failure. What it throws ends the tries. */
  readonly onFailure: (error: unknown, failures: number) => void
  /** Ends the wait that is under way: the try after it is the last. */
  readonly signal: AbortSignal
  readonly clock?: Clock | undefined
}

/** Tries again until the work succeeds, with growing waits. Rejects only as `onFailure` does, or after the signal. */
export function retry(policy: RetryPolicy): <R>(work: () => Promise<R>) => Promise<R> {
  const { backoff, onFailure, signal, clock = systemClock } = policy
  return async (work) => {
    for (let failures = 1; ; failures++) {
      try {
        return await work()
      } catch (error) {
        onFailure(error, failures)
        if (signal.aborted) throw error
      }
      await sleep(backoffMs(backoff, failures), signal, clock)
    }
  }
}
