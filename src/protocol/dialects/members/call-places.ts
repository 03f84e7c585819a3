import { isObject, type Json } from '../../json/json-object.ts'

/** A longer id tells no calls apart: all of them are kept, UTF-16 units. */
const idUnitsMax = 256

interface Placed {
  readonly place: number
  /** Empty: its server has not said it. */
  id: string
}

/**
 * Tells the calls of one answer's stream apart. Servers number them by `index`, but some leave it out, and some write 0 for all
 * of several calls: then a name beside another id begins the next call.
 */
export class CallPlaces {
  /** By index, and by id. */
  private readonly known = new Map<number | string, Placed>()
  private readonly taken = new Set<number>()
  private last: Placed | null = null
  private nextFree = 0

  /** Calls so far. */
  get count(): number {
    return this.taken.size
  }

  /** The index of the call that this is a part of. */
  of({ index, id: said, function: called }: Json): number {
    const id = typeof said === 'string' && said.length <= idUnitsMax ? said : ''
    const named = isObject(called) && typeof called.name === 'string' && called.name !== ''
    this.last = typeof index === 'number' ? this.numbered(index, id, named) : this.unnumbered(id, named)
    return this.last.place
  }

  private numbered(index: number, id: string, named: boolean): Placed {
    const known = this.known.get(index)
    if (known === undefined) return this.begin(index, id, index)
    if (id === '' || id === known.id) return known
    const other = this.known.get(id)
    if (other !== undefined) return other
    if (named && known.id !== '') return this.begin(index, id)
    if (known.id === '') this.name(known, id)
    return known
  }

  private unnumbered(id: string, named: boolean): Placed {
    const known = id === '' ? undefined : this.known.get(id)
    if (known !== undefined) return known
    return this.last === null || named ? this.begin(null, id) : this.last
  }

  /** `wanted`: its place if that is free. */
  private begin(index: number | null, id: string, wanted: number | null = null): Placed {
    const place = wanted === null || this.taken.has(wanted) ? this.freePlace() : wanted
    const placed = { place, id: '' }
    this.taken.add(place)
    if (index !== null) this.known.set(index, placed)
    this.name(placed, id)
    return placed
  }

  private name(placed: Placed, id: string): void {
    placed.id = id
    // Servers that give several calls one id number them.
    if (id !== '' && !this.known.has(id)) this.known.set(id, placed)
  }

  private freePlace(): number {
    while (this.taken.has(this.nextFree)) this.nextFree++
    return this.nextFree
  }
}
