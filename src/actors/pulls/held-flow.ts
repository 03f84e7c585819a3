import { Alarm, type Clock } from '../../clock.ts'
import type { BodyFlow } from '../../transport/transport.ts'

/** Between two looks at the rest of the pause, ms. */
const sliceMsMax = 250

/** A flow that its reader can pause, and that `hold` pauses for a time as well. */
export class HeldFlow implements BodyFlow {
  private paused = false
  private readonly alarm: Alarm

  /** `leftMs`: the rest of the pause, which may have become shorter. */
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

  /** Pauses the flow for this time, ms. */
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
