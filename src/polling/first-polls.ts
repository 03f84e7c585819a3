import type { Probe } from './node-watch.ts'

/** A node that does not answer has its place until it has timed out. */
export const firstPollsMax = 64

/**
 * So many nodes are asked for the first time at once. The first poll has the most questions, and all nodes come at one moment, when a
 * gateway starts: thousands at once would wait for this process alone, and count as silent.
 */
export class FirstPolls {
  private running = 0
  /** One for each node of the pool at most. */
  private readonly waiting: (() => void)[] = []

  /** The probe, whose first run waits for its turn. Its time limits count from there. */
  inTurn(probe: Probe): Probe {
    let first = true
    return async (bounded) => {
      if (!first) return probe(bounded)
      first = false
      if (this.running < firstPollsMax) this.running++
      else await new Promise<void>((resolve) => this.waiting.push(resolve))
      try {
        return await probe(bounded)
      } finally {
        // Its place goes to the next one.
        const next = this.waiting.shift()
        if (next === undefined) this.running--
        else next()
      }
    }
  }
}
