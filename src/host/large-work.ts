import { uncountedBytesMax } from './budget.ts'

/**
 * Garbage of a large answer that was parsed and written again, as a multiple of its bytes: its text, its values and the
 * new text (measured).
 */
const copiesLeft = 4
/** So much may be left behind before it is collected. JavaScript's own collector waits for far more (seen: 700 MB of 17 answers). */
const leftBytesMax = 48 * 1024 * 1024
/** Between two pieces of work, ms. */
const restMsMax = 100
/** The bytes of large bodies that are read at a stretch; then other work gets some milliseconds. */
const bytesPerTurn = 512 * 1024
const turnMs = 8
/** One read of a connection has at most half a mebibyte. */
const flowsPerTurn = 1

/** Where a large body comes from. */
export interface Flow {
  pause(): void
  resume(): void
}

interface Work {
  readonly bytes: number
  readonly run: () => void
}

/**
 * Parsing and writing large answers holds the process: 15 MB for 100 ms. They take turns, with a pause after each as
 * long as its work, so that small requests run in between. Their garbage is collected while there is little of it.
 */
export class LargeWork {
  private readonly waiting: Work[] = []
  private resting = false
  private leftBytes = 0
  private bytesInTurn = 0
  private readonly held: Flow[] = []
  private turning = false

  /**
   * Runs at once if the answer is small, or if no other is under way. `run` must not throw; promises that it resolves
   * continue in its turn.
   */
  take(bytes: number, run: () => void): void {
    if (bytes <= uncountedBytesMax) return run()
    if (this.resting) this.waiting.push({ bytes, run })
    else this.work({ bytes, run })
  }

  /** The same for those who wait. */
  turn(bytes: number): Promise<void> | null {
    return bytes <= uncountedBytesMax ? null : new Promise((resolve) => this.take(bytes, resolve))
  }

  /** So much of a large body has come: nodes on a fast network would else fill every turn of the process with theirs. */
  came(flow: Flow, bytes: number): void {
    this.bytesInTurn += bytes
    if (this.bytesInTurn > bytesPerTurn) {
      flow.pause()
      this.held.push(flow)
    }
    if (this.turning) return
    this.turning = true
    setTimeout(() => this.nextTurn(), turnMs)
  }

  private nextTurn(): void {
    this.bytesInTurn = 0
    this.turning = this.held.length > 0
    if (!this.turning) return
    for (const flow of this.held.splice(0, flowsPerTurn)) flow.resume()
    setTimeout(() => this.nextTurn(), turnMs)
  }

  private work({ bytes, run }: Work): void {
    const fromMs = performance.now()
    this.resting = true
    run()
    this.leftBytes += copiesLeft * bytes
    // Behind everything that waited for a promise of its.
    setImmediate(() => this.rest(fromMs))
  }

  private rest(fromMs: number): void {
    if (this.leftBytes > leftBytesMax) this.collect()
    setTimeout(() => this.next(), Math.min(restMsMax, performance.now() - fromMs))
  }

  private next(): void {
    const work = this.waiting.shift()
    if (work === undefined) this.resting = false
    else this.work(work)
  }

  private collect(): void {
    this.leftBytes = 0
    Bun.gc(true)
  }
}
