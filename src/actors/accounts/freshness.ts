import { secondMs } from '../../time.ts'
import type { ChangeFeed, Topic } from '../durable/change-feed.ts'

/** A change on another gateway is known here after at most this, or what is kept is not used without a look (§4). */
const freshForMs = 5 * secondMs

/** When something was read, and before which changes. */
export interface ReadMark {
  readonly generation: number
  readonly readAtMs: number
}

/** Judges copies of rows of some topics: current, or since when not known to be. */
export class Freshness {
  private generation = 0
  /** How long what was read before the last change was known to be current. */
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

  /** Take it before reading: a change while the answer is under way makes what was read outdated. */
  mark(): ReadMark {
    return { generation: this.generation, readAtMs: this.now() }
  }

  isCurrent(mark: ReadMark): boolean {
    return mark.generation === this.generation
  }

  /** Current, and the database has confirmed so within the last 5 s. */
  isFresh(mark: ReadMark): boolean {
    if (mark.generation !== this.generation) return false
    const ageMs = this.now() - this.feed.confirmedAtMs()
    return ageMs >= 0 && ageMs <= freshForMs
  }

  /** For how long this may already have been outdated, ms. */
  doubtMs(mark: ReadMark): number {
    const confirmedAtMs = this.isCurrent(mark)
      ? this.feed.confirmedAtMs()
      : mark.generation === this.generation - 1
        ? this.beforeLastChangeMs
        : 0
    return this.now() - Math.max(confirmedAtMs, mark.readAtMs)
  }
}
