import { Alarm, type Clock, systemClock } from '../clock.ts'
import type { Probe } from './node-watch.ts'

export const firstPollsMax = 64
/** After this a silent node's place goes to the next node, which may answer, ms. */
export const placeMsMax = 250

/**
 * At most `firstPollsMax` nodes are asked for the first time at once. The first poll has the most questions, and all nodes come at one moment, when a
 * gateway starts: thousands at once would wait for this process alone, and count as silent.
 */
export class FirstPolls {
  private running = 0
  /** One for each node of the pool at most. */
  private readonly waiting: (() => void)[] = []

  constructor(private readonly clock: Clock = systemClock) {}

  /** The probe, whose first run waits for its turn. Its time limits count from there. */
  inTurn(probe: Probe): Probe {
    let first = true
    return async (bounded) => {
      if (!first) return probe(bounded)
      first = false
      if (this.running < firstPollsMax) this.running++
      else await new Promise<void>((resolve) => this.waiting.push(resolve))
      const place = new Alarm(() => this.next(), this.clock)
      place.set(placeMsMax)
      try {
        return await probe(bounded)
      } finally {
        if (place.isSet) this.next()
        place.clear()
      }
    }
  }

  /** A place is free: it goes to the one that has waited longest. */
  private next(): void {
    const next = this.waiting.shift()
    if (next === undefined) this.running--
    else next()
  }
}
