import type { Route } from '../../../../src/machines/rules/routing.ts'
import { route } from '../../rules/routes.ts'
import type { Plan } from './plan.ts'

export const blockTokens = 64

/** Prompts of a machine by blocks; the least recently used goes first, of a prompt its end. */
export class BlockCache {
  private readonly blocks = new Map<number, true>()
  constructor(private readonly capacity: number) {}

  get size(): number {
    return this.blocks.size
  }

  get full(): boolean {
    return this.blocks.size >= this.capacity
  }

  touch(blocks: readonly number[]): void {
    for (let at = blocks.length - 1; at >= 0; at--) {
      const block = blocks[at] ?? 0
      this.blocks.delete(block)
      this.blocks.set(block, true)
    }
    for (const oldest of this.blocks.keys()) {
      if (this.blocks.size <= this.capacity) break
      this.blocks.delete(oldest)
    }
  }

  /** Leading blocks that are here. */
  matched(blocks: readonly number[]): number {
    const missing = blocks.findIndex((block) => !this.blocks.has(block))
    return missing === -1 ? blocks.length : missing
  }
}

/** A request that was placed, at its machine. */
export interface Sent {
  readonly blocks: readonly number[]
  readonly answer: readonly number[]
  readonly outTokens: number
}

/** One reader of prompts, `slots` writers and a cache. Requests beyond its slots wait here, in their order. */
export class Machine<S extends Sent> {
  readonly route: Route
  readonly speed: number
  readonly slots: number
  readonly joinsAt: number
  readonly cache: BlockCache
  /** What the peers' rules think is in its cache. */
  readonly view: BlockCache
  readonly cacheTokens: number
  readonly waiting: S[] = []
  /** When the running ones end. */
  readonly ends: number[] = []
  readUntil = 0

  constructor(
    readonly number: number,
    private readonly plan: Plan,
  ) {
    const { speeds, cacheSizes, cacheTokens, slots, few, tells, lie, joinsAt, nodes } = plan
    this.speed = speeds[number % speeds.length] ?? 1
    this.cacheTokens = cacheTokens * (cacheSizes[number % cacheSizes.length] ?? 1)
    this.slots = number === 1 ? (few ?? slots) : slots
    const slotsTotal = tells === 'slots' ? (number === 1 ? (lie ?? this.slots) : slots) : null
    this.route = route(String(number), { slotsTotal })
    this.joinsAt = number === nodes - 1 ? joinsAt : 0
    this.cache = new BlockCache(this.cacheTokens / blockTokens)
    this.view = new BlockCache(this.cacheTokens / blockTokens)
  }

  get load(): number {
    return this.ends.length + this.waiting.length
  }

  get hasSlot(): boolean {
    return this.ends.length < this.slots
  }

  /** Seconds to read what is not cached. */
  readS(blocks: readonly number[], matched: number, now: number): number {
    const { slowFrom, prefill } = this.plan
    const isSlow = slowFrom > 0 && this.number === 0 && now > slowFrom && now < slowFrom + 200
    return ((blocks.length - matched) * blockTokens) / (prefill * this.speed * (isSlow ? 0.2 : 1))
  }

  /** Seconds to write an answer. */
  writeS(tokens: number): number {
    return tokens / (this.plan.decode * Math.sqrt(this.speed))
  }

  /** When the first token of a request would come that is sent now. */
  firstTokenAt(blocks: readonly number[], now: number): number {
    let readUntil = Math.max(this.readUntil, now)
    for (const one of this.waiting) readUntil += this.readS(one.blocks, this.cache.matched(one.blocks), now)
    const over = this.load + 1 - this.slots
    const slotAt = over <= 0 ? now : (this.ends.toSorted((a, b) => a - b)[Math.min(over, this.ends.length) - 1] ?? now)
    return Math.max(slotAt, readUntil) + this.readS(blocks, this.cache.matched(blocks), now)
  }
}
