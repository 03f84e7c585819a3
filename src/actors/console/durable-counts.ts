/** Instances by state. */
export type RestingCounts = Readonly<Record<string, number>>

/** A chart whose instances rest as rows. */
export interface DurableChart {
  /** States in which an instance has ended, so that its row is no longer counted. */
  readonly ended: readonly string[]
  /** Counts the rows that have not ended by state, except those with the given ids. */
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
  /** The states of the instances that `resting` leaves out, by id. */
  private working: States
  /** The instances that were at work when the current read began. */
  private next: States | null = null

  /** `atWork` returns the id and state of every instance that this gateway runs now. */
  constructor(
    private readonly chart: DurableChart,
    private readonly atWork: () => Iterable<readonly [id: string, state: string]>,
  ) {
    this.working = new Map(atWork())
  }

  get reading(): boolean {
    return this.next !== null
  }

  /** Resolves when the rows were read. If the read fails it rejects, and nothing changes. */
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
