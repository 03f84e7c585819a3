import { readFileSync } from 'node:fs'

/** The event loop did nothing else for so long. */
export interface Stall {
  /** What the thread itself computed, ms. */
  readonly ownMs: number
  /** By the clock on the wall, ms. */
  readonly wallMs: number
}

export interface LoopMonitor {
  /** Looks at once: what blocks at this moment is not told by a timer that has yet to run. */
  look(): void
  /** What was done since the last look was asked for. */
  forget(): void
  stop(): void
  readonly worstMs: number
  /** Since this was last asked. */
  takeWorst(): number
  /** Processor time of the thread so far, ms. */
  readonly consumedMs: number
}

export const stallMsMax = 250
export const usualBeatMs = 10
const nanosecondsPerMs = 1_000_000
const microsecondsPerMs = 1_000
const schedule = `/proc/self/task/${process.pid}/schedstat`

/** Processor time of the main thread, ms; of the whole process where the system does not tell. */
function consumedMs(): number {
  try {
    return Number(readFileSync(schedule, 'latin1').split(' ')[0]) / nanosecondsPerMs
  } catch {
    const { user, system } = process.cpuUsage()
    return (user + system) / microsecondsPerMs
  }
}

/**
 * Tells of every turn of this process's event loop that took longer than `stallMsMax`. On a machine that others use as
 * well a late timer proves nothing. So a stall is the processor time that the thread used between two beats, and no more than
 * has passed: a thread that waits for its turn, or a paused virtual machine, uses none.
 */
export function watchLoop(stalled: (stall: Stall) => void, beatMs = usualBeatMs): LoopMonitor {
  const taken = () => ({ atMs: performance.now(), consumed: consumedMs() })
  let before = taken()
  let worstMs = 0
  let worstSinceMs = 0
  const look = () => {
    const now = taken()
    const wallMs = now.atMs - before.atMs
    const ownMs = Math.min(wallMs, now.consumed - before.consumed)
    before = now
    worstMs = Math.max(worstMs, ownMs)
    worstSinceMs = Math.max(worstSinceMs, ownMs)
    if (ownMs > stallMsMax) stalled({ ownMs, wallMs })
  }
  const timer = setInterval(look, beatMs)
  return {
    look,
    forget: () => {
      before = taken()
    },
    stop: () => clearInterval(timer),
    get worstMs() {
      return worstMs
    },
    takeWorst: () => {
      const worst = worstSinceMs
      worstSinceMs = 0
      return worst
    },
    get consumedMs() {
      return consumedMs()
    },
  }
}
