/** Of each kind, one line in this time, ms. */
const everyMs = 1_000
/** Kinds are our own words, and fewer than these; what comes beyond shares one. */
const kindsMax = 256
const otherKind = 'other'

/** A line that is not written yet. `object`: the text of its members. */
interface Line<Level> {
  readonly level: Level
  readonly event: string
  readonly object: string
}

interface Kind<Level> {
  /** Lines since the last one that was written. */
  count: number
  last: Line<Level> | null
  readonly timer: ReturnType<typeof setTimeout>
}

function withCount(object: string, count: number): string {
  const members = object.slice(0, -1)
  return `${members}${members === '{' ? '' : ','}"count":${count}}`
}

/**
 * Lines that strangers could cause without end. The first of a kind is written at once. Those of the next second become one
 * line: the last of them, and in `count` how many it stands for. So lines and memory are bounded, and the sum of the counts
 * is what happened.
 */
export class CountedLines<Level> {
  private readonly kinds = new Map<string, Kind<Level>>()

  constructor(private readonly write: (level: Level, event: string, object: string) => void) {}

  add(kind: string, line: Line<Level>): void {
    const name = this.kinds.has(kind) || this.kinds.size < kindsMax ? kind : otherKind
    const known = this.kinds.get(name)
    if (known === undefined) {
      this.write(line.level, line.event, line.object)
      const timer = setTimeout(() => this.next(name), everyMs)
      timer.unref()
      this.kinds.set(name, { count: 0, last: null, timer })
      return
    }
    known.count++
    known.last = line
  }

  /** Writes what waits. */
  flush(): void {
    for (const kind of this.kinds.values()) {
      clearTimeout(kind.timer)
      this.end(kind)
    }
    this.kinds.clear()
  }

  private next(name: string): void {
    const kind = this.kinds.get(name)
    if (kind === undefined) return
    if (kind.last === null) {
      this.kinds.delete(name)
      return
    }
    this.end(kind)
    kind.timer.refresh()
  }

  private end(kind: Kind<Level>): void {
    const { count, last } = kind
    if (last === null) return
    this.write(last.level, last.event, count === 1 ? last.object : withCount(last.object, count))
    kind.count = 0
    kind.last = null
  }
}
