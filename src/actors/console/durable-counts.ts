/** Instances by state. */
export type RestingCounts = Readonly<Record<string, number>>

/** A chart whose instances rest as rows. */
export interface DurableChart {
  /** States in which a row has ended: it is no instance any more. */
  readonly ended: readonly string[]
  /** Rows that have not ended, by state, without those of these ids. */
  count(except: readonly string[]): Promise<RestingCounts>
}

type States = Map<string, string>

/**
 * Where the instances of one durable chart are, each counted once: what this gateway has at work by its chart, all
 * others by their rows. Between two readings of the rows it is the last one that says which is which: what began since
 * is still counted as the row that was read, what came to rest since stays where it rested.
 */
export class DurableCounts {
  private resting: RestingCounts = {}
  /** State by id, of those that are left out of `resting`. */
  private working: States
  /** Of a reading under way; those that were at work when it began. */
  private next: States | null = null

  /** `atWork`: id and state of what this gateway runs now. */
  constructor(
    private readonly chart: DurableChart,
    private readonly atWork: () => Iterable<readonly [id: string, state: string]>,
  ) {
    this.working = new Map(atWork())
  }

  get reading(): boolean {
    return this.next !== null
  }

  /** Resolves when the rows were read; rejects as the reading does, and all stays as it was. */
  async read(): Promise<void> {
    const next: States = new Map(this.atWork())
    this.next = next
    try {
      this.resting = await this.chart.count([...next.keys()])
      this.working = next
    } finally {
      this.next = null
    }
  }

  moved(id: string, to: string): void {
    if (this.working.has(id)) this.working.set(id, to)
    if (this.next?.has(id) === true) this.next.set(id, to)
  }

  live(): ReadonlyMap<string, number> {
    const live = new Map(Object.entries(this.resting))
    for (const state of this.working.values())
      if (!this.chart.ended.includes(state)) live.set(state, (live.get(state) ?? 0) + 1)
    return live
  }
}
