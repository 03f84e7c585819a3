/** An item that remembers its place in the roster of this name. -1: it stands in none. */
export type Placed<Place extends string> = { [Name in Place]: number }

/**
 * The things that run now, of which each request adds one and takes one away. A `Set` is what it looks like, and keeps the gone
 * alive: it makes a new table as they leave, the old table leads to the new one, and once an old one is in the collector's
 * old generation, everything that stood in any of its successors stays until the next full collection (decision 23). A place
 * in an array that is overwritten keeps nothing.
 */
export class Roster<Place extends string, T extends Placed<Place>> implements Iterable<T> {
  private readonly items: T[] = []

  /** `place`: where an item remembers its place. An item that stands in several rosters has one for each. */
  constructor(private readonly place: Place) {}

  get size(): number {
    return this.items.length
  }

  has(item: T): boolean {
    return this.items[item[this.place]] === item
  }

  add(item: T): void {
    if (!this.has(item)) this.put(item, this.items.length)
  }

  /** The last item takes the place of the one that leaves. */
  delete(item: T): void {
    if (!this.has(item)) return
    const at: number = item[this.place]
    const last = this.items.pop()
    if (last !== undefined && last !== item) this.put(last, at)
    this.forget(item)
  }

  /** The newest first, so that items may leave meanwhile: each that stays is visited. One that comes meanwhile may be. */
  *[Symbol.iterator](): Generator<T> {
    for (let at = this.items.length - 1; at >= 0; at--) {
      const item = this.items[at]
      if (item !== undefined) yield item
    }
  }

  private put(item: Placed<Place>, at: number): void {
    this.items[at] = item as T
    item[this.place] = at
  }

  private forget(item: Placed<Place>): void {
    item[this.place] = -1
  }
}
