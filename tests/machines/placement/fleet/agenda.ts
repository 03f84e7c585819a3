/** What happens in virtual time, by when it happens. */
export class Agenda {
  private readonly heap: { at: number; order: number; run: () => void }[] = []
  private order = 0
  get size() {
    return this.heap.length
  }
  at(at: number, run: () => void) {
    const { heap } = this
    const event = { at, order: this.order++, run }
    let i = heap.push(event) - 1
    while (i > 0) {
      const parent = (i - 1) >> 1
      if (earlier(heap[parent], event)) break
      heap[i] = heap[parent] as typeof event
      i = parent
    }
    heap[i] = event
  }
  next(): { at: number; run: () => void } {
    const { heap } = this
    const first = heap[0]
    const last = heap.pop()
    if (first === undefined || last === undefined) throw new Error('nothing left to happen')
    let i = 0
    while (heap.length > 0) {
      let child = 2 * i + 1
      if (child + 1 < heap.length && earlier(heap[child + 1], heap[child])) child++
      if (child >= heap.length || earlier(last, heap[child])) break
      heap[i] = heap[child] as typeof last
      i = child
    }
    if (heap.length > 0) heap[i] = last
    return first
  }
}

type Happening = { readonly at: number; readonly order: number } | undefined
const earlier = (a: Happening, b: Happening) =>
  a !== undefined && b !== undefined && (a.at < b.at || (a.at === b.at && a.order < b.order))
