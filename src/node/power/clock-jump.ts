import { type Loop, loop } from '../../host/loop.ts'
import { secondMs } from '../../time.ts'

export interface JumpTimes {
  readonly everyMs: number
  /** A clock that is ahead of a tick's length by this much has slept, and its timers too. */
  readonly jumpMs: number
  /** The same where the computer was just sent to sleep. */
  readonly shortMs: number
}
export const jumpTimes: JumpTimes = { everyMs: secondMs, jumpMs: 5 * secondMs, shortMs: secondMs }

/**
 * Notices that the computer was asleep: its timers stood still, and the time of day did not. A program that was stopped, or waited for
 * a very busy processor, looks the same, and the same helps it.
 */
export function watchClock(
  jumped: (sleptMs: number) => void,
  isFalling: () => boolean,
  times = jumpTimes,
  now: () => number = Date.now,
): Loop {
  let lastMs = now()
  const tick = () => {
    const nowMs = now()
    const sleptMs = nowMs - lastMs - times.everyMs
    lastMs = nowMs
    if (sleptMs >= (isFalling() ? times.shortMs : times.jumpMs)) jumped(sleptMs)
  }
  const watching = loop({ pauseMs: times.everyMs, run: tick })
  watching.start()
  return watching
}
