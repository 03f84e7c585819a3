import { type Backoff, backoffMs } from '../../backoff.ts'
import { hourMs, minuteMs } from '../../time.ts'
import { ewma } from './moving-mean.ts'

/** A wake-up that seems to take longer was not watched all the time, ms. */
const wakeMsMax = 600_000
/** Assumed of a computer that was never woken: from its first packet until a model of it is ready, ms. */
const wakeMsAssumed = 20_000

/** How long requests leave a node in peace that they woke in vain, by how often in a row. */
const wakePauses: Backoff = { firstMs: 2 * minuteMs, maxMs: 2 * hourMs }

/** How long a node takes to wake, and whether it sleeps. One object per node, which its routes share; the router writes it. */
export class NodeWake {
  /** The node sleeps, or was woken and has no model ready yet. */
  asleep = false
  /** Unix ms since when it is being woken; null: it is not. */
  startedAtMs: number | null = null
  /** How often in a row it was woken in vain. */
  inVain = 0
  /** Unix ms until which no request wakes it; 0: any may. */
  pausedUntilMs = 0

  constructor(
    /** Exponentially weighted; null: none was measured. */
    public meanMs: number | null = null,
  ) {}

  /** A request wants it. Another one may have begun to wake it. */
  begun(nowMs: number): void {
    this.startedAtMs ??= nowMs
  }

  /** No request waits for it any more. */
  givenUp(): void {
    this.startedAtMs = null
  }

  /** It did not wake for as long as a request waits. False: another request has found that out before. */
  failed(nowMs: number): boolean {
    if (this.isPaused(nowMs)) return false
    this.inVain++
    this.pausedUntilMs = nowMs + backoffMs(wakePauses, this.inVain)
    return true
  }

  /** Another gateway has found it out. */
  onOutcome(inVain: number, untilMs: number): void {
    if (!(untilMs > this.pausedUntilMs)) return
    this.inVain = inVain
    this.pausedUntilMs = untilMs
  }

  isPaused(nowMs: number): boolean {
    return nowMs < this.pausedUntilMs
  }

  /** It is awake, or somebody has mended it, or a person wants it now. */
  lift(): void {
    this.inVain = 0
    this.pausedUntilMs = 0
  }

  /** It has a model ready. Returns how long that took; null: it was not woken. */
  woken(nowMs: number): number | null {
    const { startedAtMs } = this
    this.asleep = false
    this.startedAtMs = null
    if (startedAtMs === null) return null
    const tookMs = Math.min(Math.max(0, nowMs - startedAtMs), wakeMsMax)
    this.meanMs = ewma(this.meanMs, tookMs)
    return tookMs
  }

  /** What a call waits for it: nothing while it is awake, and only the rest of a wake-up that is under way. */
  leftMs(nowMs: number): number {
    if (!this.asleep) return 0
    const wakeMs = this.meanMs ?? wakeMsAssumed
    return this.startedAtMs === null ? wakeMs : Math.max(wakeMs - (nowMs - this.startedAtMs), 0)
  }
}
