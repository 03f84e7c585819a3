import { Alarm, type Clock } from '../../clock.ts'
import type { BodyFlow } from '../../transport/transport.ts'

/** Between two questions how long it still is, ms. */
const sliceMsMax = 250

/** A flow that flows when its reader takes what comes, and it is not held for a time. */
export class HeldFlow implements BodyFlow {
  private paused = false
  private readonly alarm: Alarm

  /** `leftMs`: how long it is to be held from now on; that may have become shorter. */
  constructor(
    private readonly flow: BodyFlow,
    private readonly leftMs: () => number,
    clock: Clock,
  ) {
    this.alarm = new Alarm(() => this.look(), clock)
  }

  pause(): void {
    this.paused = true
    this.flow.pause()
  }

  resume(): void {
    this.paused = false
    if (!this.alarm.isSet) this.flow.resume()
  }

  /** For so long, ms. */
  hold(ms: number): void {
    this.alarm.set(Math.min(ms, sliceMsMax))
    this.flow.pause()
  }

  private look(): void {
    const leftMs = this.leftMs()
    if (leftMs > 0) this.alarm.set(Math.min(leftMs, sliceMsMax))
    else if (!this.paused) this.flow.resume()
  }

  /** Nothing more comes. */
  stop(): void {
    this.alarm.clear()
  }
}
