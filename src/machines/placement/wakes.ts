import { ewma } from './moving-mean.ts'

/** A wake-up that seems to take longer was not watched all the time, ms. */
export const wakeMsMax = 600_000
/** Assumed of a computer that was never woken: from its first packet until a model of it is ready, ms. */
const wakeMsAssumed = 20_000

/** How long a node takes to wake, and whether it sleeps. One object per node, which its routes share; the router writes it. */
export class NodeWake {
  /** The node sleeps, or was woken and has no model ready yet. */
  asleep = false
  /** Unix ms since when somebody wakes it; null: nobody does. */
  startedAtMs: number | null = null

  constructor(
    /** Exponentially weighted; null: none was measured. */
    public meanMs: number | null = null,
  ) {}

  /** A request wants it. Another one may have begun to wake it. */
  begun(nowMs: number): void {
    this.startedAtMs ??= nowMs
  }

  /** Nobody waits for it any more. */
  givenUp(): void {
    this.startedAtMs = null
  }

  /** It has a model ready. Returns how long that took; null: nobody has woken it. */
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
