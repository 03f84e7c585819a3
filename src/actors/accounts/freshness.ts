import { secondMs } from '../../time.ts'
import type { ChangeFeed, Topic } from '../durable/change-feed.ts'

/** A gateway learns of a change on another gateway within this time, or asks the database again (§4). */
const freshForMs = 5 * secondMs

/** When something was read, and after which changes. */
export interface ReadMark {
  readonly generation: number
  readonly readAtMs: number
}

/** Decides whether copies of rows are current, or since when they may be outdated. */
export class Freshness {
  private generation = 0
  /** Until when the copies before the last change were known to be current. */
  private beforeLastChangeMs = 0

  constructor(
    private readonly feed: ChangeFeed,
    topics: readonly Topic[],
    private readonly now: () => number,
    changed: () => void = () => {},
  ) {
    for (const topic of topics) {
      feed.subscribe(topic, () => {
        this.generation++
        this.beforeLastChangeMs = feed.confirmedAtMs()
        changed()
      })
    }
  }

  /** Take the mark before reading, so that a change during the read makes the result outdated. */
  mark(): ReadMark {
    return { generation: this.generation, readAtMs: this.now() }
  }

  isCurrent(mark: ReadMark): boolean {
    return mark.generation === this.generation
  }

  /** True if the copy is current and the database has confirmed it within the last 5 s. */
  isFresh(mark: ReadMark): boolean {
    if (mark.generation !== this.generation) return false
    const ageMs = this.now() - this.feed.confirmedAtMs()
    return ageMs >= 0 && ageMs <= freshForMs
  }

  /** How long the copy may already have been outdated, ms. */
  doubtMs(mark: ReadMark): number {
    const confirmedAtMs = this.isCurrent(mark)
      ? this.feed.confirmedAtMs()
      : mark.generation === this.generation - 1
        ? this.beforeLastChangeMs
        : 0
    return this.now() - Math.max(confirmedAtMs, mark.readAtMs)
  }
}
