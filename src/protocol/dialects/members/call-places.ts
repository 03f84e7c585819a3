import { isObject, type Json } from '../../json/json-object.ts'

/** A longer id tells no calls apart: all of them are kept, UTF-16 units. */
const idUnitsMax = 256

/** Whether an object whose text comes in parts is complete. */
class Input {
  private depth = 0
  private opened = false
  private inText = false
  private escaped = false

  get complete(): boolean {
    return this.opened && this.depth === 0
  }

  add(part: string): void {
    for (let at = 0; at < part.length; at++) {
      const char = part[at]
      if (this.escaped) this.escaped = false
      else if (this.inText) {
        if (char === '\\') this.escaped = true
        else if (char === '"') this.inText = false
      } else if (char === '"') this.inText = true
      else if (char === '{') {
        this.opened = true
        this.depth++
      } else if (char === '}') this.depth--
    }
  }
}

interface Placed {
  readonly place: number
  readonly name: string
  /** Of parts without an index. */
  readonly input: Input
  /** Empty: its server has not said it. */
  id: string
}

/**
 * Tells the calls of one answer's stream apart. Servers number them by `index`, but some leave it out, and some write 0 for all
 * of several calls: then a name beside another id begins the next call. Some without `index` repeat the name in each part, with an
 * id of its own: there it goes on with a call of that name that is not complete.
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

  /** The part with the index of its call. Where it repeats the name, it goes on without: clients put names together, too. */
  of(part: Json): Json {
    const { index, id: said, function: called } = part
    const id = typeof said === 'string' && said.length <= idUnitsMax ? said : ''
    const { name: spoken, arguments: input } = isObject(called) ? called : ({} as Json)
    const name = typeof spoken === 'string' ? spoken : ''
    if (typeof index === 'number') {
      this.last = this.numbered(index, id, name)
      return this.last.place === index ? part : { ...part, index: this.last.place }
    }
    const before = this.count
    this.last = this.unnumbered(id, name)
    if (typeof input === 'string') this.last.input.add(input)
    const { place } = this.last
    return name !== '' && this.count === before
      ? { index: place, function: { arguments: input } }
      : { ...part, index: place }
  }

  private numbered(index: number, id: string, name: string): Placed {
    const known = this.known.get(index)
    if (known === undefined) return this.begin(index, id, name, index)
    if (id === '' || id === known.id) return known
    const other = this.known.get(id)
    if (other !== undefined) return other
    if (name !== '' && known.id !== '') return this.begin(index, id, name)
    if (known.id === '') this.name(known, id)
    return known
  }

  private unnumbered(id: string, name: string): Placed {
    const known = id === '' ? undefined : this.known.get(id)
    if (known !== undefined) return known
    const { last } = this
    if (last === null) return this.begin(null, id, name)
    const isNext = name !== '' && (name !== last.name || last.input.complete)
    return isNext ? this.begin(null, id, name) : last
  }

  /** `wanted`: its place if that is free. */
  private begin(index: number | null, id: string, name: string, wanted: number | null = null): Placed {
    const place = wanted === null || this.taken.has(wanted) ? this.freePlace() : wanted
    const placed = { place, name, input: new Input(), id: '' }
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
