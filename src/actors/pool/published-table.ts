import { Alarm, type Clock, systemClock } from '../../clock.ts'
import type { RoutingTable } from '../../machines/rules/routing.ts'
import type { Catalogue, RoutedNode } from './nodes/routing-table.ts'
import { TableBuilder } from './table-builder.ts'

/** While all nodes answer for the first time, or many of a large pool change, their changes make one table in this time and not one each, ms. */
const gatherMs = 50
/** The table of a pool of no more nodes is made for each change, since it costs no more than the change. */
const smallPoolMax = 200

export interface TableSources {
  readonly nodes: () => ReadonlyMap<string, RoutedNode>
  readonly catalogue: () => Catalogue
  /** True while all nodes answer for the first time. */
  readonly gathers: () => boolean
  /** Called when all listeners have a new table. */
  readonly published: () => void
}

/** The routing table of the pool, one immutable table after the other. */
export class PublishedTable {
  private readonly builder = new TableBuilder()
  private readonly listeners = new Set<(table: RoutingTable) => void>()
  private current: RoutingTable = this.builder.build(new Map(), new Map(), 0, Date.now())
  /** Set while changes wait for a table. */
  private readonly gathering: Alarm
  /** By the clock, of the last table. */
  private publishedMs = Number.NEGATIVE_INFINITY

  constructor(
    private readonly sources: TableSources,
    private readonly clock: Clock = systemClock,
  ) {
    this.gathering = new Alarm(() => this.publishNow(), clock)
  }

  /** With every change until now. */
  get value(): RoutingTable {
    if (this.gathering.isSet) this.publishNow()
    return this.current
  }

  /** The last table that listeners have; changes of the last `gatherMs` may be missing. */
  get last(): RoutingTable {
    return this.current
  }

  /** Of the last table that listeners have. */
  get version(): number {
    return this.current.version
  }

  /** Calls the listener with every further table. */
  subscribe(listener: (table: RoutingTable) => void): () => void {
    this.listeners.add(listener)
    return () => void this.listeners.delete(listener)
  }

  /**
   * Something has changed. Listeners have the table when this returns; up to `gatherMs` later while all nodes answer for the first
   * time, or if a large pool has had a table within that time: when a switch dies, its thousand nodes are silent at once.
   */
  publish(): void {
    if (this.gathering.isSet) return
    const { gathers, nodes } = this.sources
    const waitMs = gathers() ? gatherMs : this.publishedMs + gatherMs - this.clock.now()
    if (waitMs > 0 && (gathers() || nodes().size > smallPoolMax)) this.gathering.set(waitMs)
    else this.publishNow()
  }

  /** No table is published any more. */
  stop(): void {
    this.gathering.clear()
  }

  private publishNow(): void {
    const { nodes, catalogue, published } = this.sources
    this.gathering.clear()
    this.current = this.builder.build(nodes(), catalogue(), this.current.version + 1, Date.now())
    for (const listener of this.listeners) listener(this.current)
    published()
    this.publishedMs = this.clock.now()
  }
}
