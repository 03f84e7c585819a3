import type { TunnelStream } from './tunnel-stream.ts'

/** Ids follow each other, so that few streams that are open together share a list. A power of two. */
const lists = 256

/**
 * The open streams of a tunnel by their id. Each request opens one and ends it, and a `Map` would keep those that have ended
 * (decision 23): here each has its place in one of a few lists, and forgets its neighbour when it leaves.
 */
export class OpenStreams {
  private readonly firstOf: (TunnelStream | null)[] = new Array(lists).fill(null)
  private count = 0

  get size(): number {
    return this.count
  }

  get(id: number): TunnelStream | undefined {
    let stream = this.firstOf[id & (lists - 1)] ?? null
    while (stream !== null && stream.id !== id) stream = stream.nextOpen
    return stream ?? undefined
  }

  add(stream: TunnelStream): void {
    const list = stream.id & (lists - 1)
    stream.nextOpen = this.firstOf[list] ?? null
    this.firstOf[list] = stream
    this.count++
  }

  delete(stream: TunnelStream): void {
    const list = stream.id & (lists - 1)
    const first = this.firstOf[list] ?? null
    if (first === stream) this.firstOf[list] = stream.nextOpen
    else {
      let before = first
      while (before !== null && before.nextOpen !== stream) before = before.nextOpen
      if (before === null) return
      before.nextOpen = stream.nextOpen
    }
    stream.nextOpen = null
    this.count--
  }

  all(): readonly TunnelStream[] {
    const found: TunnelStream[] = []
    for (const first of this.firstOf)
      for (let stream = first; stream !== null; stream = stream.nextOpen) found.push(stream)
    return found.sort((a, b) => a.id - b.id)
  }
}
