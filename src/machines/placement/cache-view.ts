import { blockUnits, type Prompt } from './blocks.ts'
import {
  blocksIn,
  clearBit,
  type Entry,
  type Link,
  learnTokenLength,
  type Seat,
  setBit,
  setTail,
  tokensMeasuredMin,
  unlink,
} from './cache-seat.ts'

/** Assumed length of a token, UTF-16 units. */
export const unitsPerToken = 4
/**
 * A cache counts as twice as large as its runtime reports: if the estimate is too small, prompts that are still cached
 * go elsewhere and are read again (§29).
 */
const capacityFactor = 2
/** Tokens of the cache of a runtime that does not say how many it holds. */
const capacityTokensAssumed = 262_144
/** Blocks to which corrections shrink a cache at most. */
export const capacityBlocksLeast = 32
/** After this number of misses in a row, a cache counts as smaller than its runtime says and than was estimated. */
const missesBelieved = 3
/** Upper bound of blocks remembered per cache, regardless of the runtime's report and of corrections. */
const capacityBlocksMax = 16_384
/** A runtime that had less than thought has a smaller cache than thought; one that had it all may have a larger one. */
const shrink = 0.9
const grow = 1.02
const wordBits = 32
/** Sessions of one model whose last node is known; the one that was seen last for longest is forgotten first. */
export const sessionsMax = 16_384

/** How much of one prompt's beginning each cache is thought to hold, UTF-16 units. */
export interface Matches {
  unitsOf(profileId: string): number
  /** The profile that last served the prompt's session; null without a session, or if unknown. */
  readonly holder: string | null
}

class SeatMatches implements Matches {
  constructor(
    private readonly seats: ReadonlyMap<string, Seat>,
    private readonly units: readonly number[],
    readonly holder: string | null,
  ) {}

  unitsOf(profileId: string): number {
    const seat = this.seats.get(profileId)
    return seat === undefined ? 0 : (this.units[seat.number] ?? 0)
  }
}

const nothing = () => 0
export const noMatches: Matches = { unitsOf: nothing, holder: null }

const blocksOfTokens = (tokens: number) => Math.max(1, Math.round((tokens * unitsPerToken) / blockUnits))

/**
 * The estimated contents of the caches of one model's profiles: the prompts placed there, without the least recently
 * used.
 */
export class CacheView {
  private readonly index = new Map<number, Entry>()
  private readonly seats = new Map<string, Seat>()
  private readonly freeSeats: number[] = []
  /** By their last use. */
  private readonly sessions = new Map<number, string>()

  /** Blocks known, each counted once however many caches hold it. */
  get size(): number {
    return this.index.size
  }

  /** Blocks that were forgotten for want of room. */
  evictedFrom(profileId: string): number {
    return this.seats.get(profileId)?.evicted ?? 0
  }

  capacityOf(profileId: string): number {
    return Math.floor(this.seats.get(profileId)?.capacity ?? 0)
  }

  /** Walks the blocks until no cache holds the next one. */
  match({ blocks, units, session }: Pick<Prompt, 'blocks' | 'units' | 'session'>): Matches {
    const holder = session === undefined ? null : (this.sessions.get(session) ?? null)
    const seatsUsed = this.seats.size + this.freeSeats.length
    let last = this.index.get(blocks[0] ?? -1)
    if (last === undefined) return holder === null ? noMatches : { unitsOf: nothing, holder }
    const matched: number[] = new Array(seatsUsed).fill(0)
    const words = Math.ceil(seatsUsed / wordBits)
    const alive: number[] = new Array(words).fill(-1)
    for (let at = 0; at <= blocks.length; at++) {
      const entry = at === blocks.length ? undefined : this.index.get(blocks[at] ?? -1)
      let any = 0
      for (let word = 0; word < words; word++) {
        const before = alive[word] ?? 0
        const now = before & (entry?.words[word] ?? 0)
        if (before !== now && at > 0) note(matched, word, before & ~now, at * blockUnits, last, units)
        alive[word] = now
        any |= now
      }
      if (any === 0 || entry === undefined) break
      last = entry
    }
    return new SeatMatches(this.seats, matched, holder)
  }

  /** The cache has read these blocks. The first ones are the most recently used: they are the last that a runtime drops. */
  record(profileId: string, { blocks, units, session }: Pick<Prompt, 'blocks' | 'units' | 'session'>): void {
    if (session !== undefined) this.hold(session, profileId)
    const seat = this.seatOf(profileId)
    for (let at = blocks.length - 1; at >= 0; at--) {
      const link = this.touch(seat, blocks[at] ?? 0)
      setTail(seat, link, at === blocks.length - 1 ? units - blocks.length * blockUnits : 0)
    }
    this.fit(seat)
  }

  private hold(session: number, profileId: string): void {
    this.sessions.delete(session)
    this.sessions.set(session, profileId)
    if (this.sessions.size <= sessionsMax) return
    const [oldest] = this.sessions.keys()
    if (oldest !== undefined) this.sessions.delete(oldest)
  }

  /** The answer to this prompt is complete: it stands behind it in the cache, as the next turn's prompt will have it. */
  answered(profileId: string, { blocks }: Pick<Prompt, 'blocks'>, answerUnits: number): void {
    const seat = this.seats.get(profileId)
    const entry = this.index.get(blocks.at(-1) ?? -1)
    const link = entry?.links.find((other) => other.seat === seat?.number)
    if (link !== undefined && seat !== undefined) setTail(seat, link, link.tailUnits + answerUnits)
  }

  /** Takes the size of the cache that the runtime reports, tokens. */
  reported(profileId: string, tokens: number): void {
    const seat = this.seatOf(profileId)
    const said = blocksOfTokens(tokens)
    if (seat.said === said) return
    seat.said = said
    if (seat.reported) return
    seat.capacity = Math.min(capacityFactor * said, capacityBlocksMax)
    this.fit(seat)
  }

  /**
   * The tokens that a full cache holds, by its server's own events: they replace its reported and its estimated size.
   * null: none are heard, or it is not full.
   */
  holds(profileId: string, tokens: number | null): void {
    const seat = this.seats.get(profileId)
    if (seat === undefined || (tokens === null && !seat.reported)) return
    seat.reported = tokens !== null
    const usual = seat.said === null ? blocksOfTokens(capacityTokensAssumed) : capacityFactor * seat.said
    const blocks = tokens === null ? usual : (tokens * seat.unitsPerToken) / blockUnits
    seat.capacity = Math.min(Math.max(1, blocks), capacityBlocksMax)
    this.fit(seat)
  }

  /** Records a prompt's length, in UTF-16 units and in tokens. */
  measured(profileId: string, units: number, tokens: number): void {
    const seat = this.seats.get(profileId)
    if (seat !== undefined && tokens >= tokensMeasuredMin) learnTokenLength(seat, units / tokens)
  }

  /** The runtime has said how much of a prompt it found in its cache. */
  corrected(profileId: string, matchedBlocks: number, cachedUnits: number): void {
    const seat = this.seats.get(profileId)
    if (seat === undefined || matchedBlocks === 0 || seat.reported) return
    // A block that is cut by the cache's own grid is no miss.
    const less = cachedUnits < (matchedBlocks - 1) * blockUnits
    seat.misses = less ? seat.misses + 1 : 0
    const isSmaller = seat.misses >= missesBelieved
    const least = isSmaller ? capacityBlocksLeast : Math.min(seat.capacity, seat.said ?? capacityBlocksLeast)
    // What was thought cached was not, so it holds less than is thought in it; but it may have been emptied at once.
    const from = isSmaller ? Math.min(seat.capacity, Math.max(blocksIn(seat), seat.capacity / 2)) : seat.capacity
    seat.capacity = Math.min(Math.max(from * (less ? shrink : grow), least), capacityBlocksMax)
    this.fit(seat)
  }

  /** The cache is empty: its server has restarted, its model was unloaded, or the profile is gone. */
  forget(profileId: string): void {
    const seat = this.seats.get(profileId)
    if (seat === undefined) return
    while (seat.oldest !== null) this.drop(seat, seat.oldest)
    this.seats.delete(profileId)
    this.freeSeats.push(seat.number)
  }

  private seatOf(profileId: string): Seat {
    const known = this.seats.get(profileId)
    if (known !== undefined) return known
    const number = this.freeSeats.pop() ?? this.seats.size
    const capacity = blocksOfTokens(capacityTokensAssumed)
    const seat = {
      number,
      oldest: null,
      newest: null,
      size: 0,
      tailUnits: 0,
      capacity,
      said: null,
      reported: false,
      unitsPerToken,
      misses: 0,
      evicted: 0,
    }
    this.seats.set(profileId, seat)
    return seat
  }

  private touch(seat: Seat, block: number): Link {
    let entry = this.index.get(block)
    if (entry === undefined) {
      entry = { block, words: [], links: [] }
      this.index.set(block, entry)
    }
    let link = entry.links.find((other) => other.seat === seat.number)
    if (link === undefined) {
      link = { entry, seat: seat.number, tailUnits: 0, older: null, newer: null }
      entry.links.push(link)
      setBit(entry.words, seat.number)
      seat.size++
    } else if (seat.newest === link) return link
    else unlink(seat, link)
    link.older = seat.newest
    link.newer = null
    if (seat.newest !== null) seat.newest.newer = link
    seat.newest = link
    seat.oldest ??= link
    return link
  }

  private fit(seat: Seat): void {
    const capacity = Math.floor(seat.capacity)
    while (seat.oldest !== null && blocksIn(seat) > capacity) this.evictOldest(seat)
  }

  private evictOldest(seat: Seat): void {
    if (seat.oldest === null) return
    this.drop(seat, seat.oldest)
    seat.evicted++
  }

  private drop(seat: Seat, link: Link): void {
    const { entry } = link
    unlink(seat, link)
    setTail(seat, link, 0)
    seat.size--
    clearBit(entry.words, seat.number)
    entry.links.splice(entry.links.indexOf(link), 1)
    if (entry.links.length === 0) this.index.delete(entry.block)
  }
}

/** Writes the match of every seat whose bit is set: it ends with the block `last`, and what its cache holds behind it. */
function note(matched: number[], word: number, bits: number, blocksUnits: number, last: Entry, units: number): void {
  if (bits === 0) return
  for (const { seat, tailUnits } of last.links) {
    if (seat >>> 5 === word && (bits & (1 << (seat & 31))) !== 0)
      matched[seat] = Math.min(units, blocksUnits + tailUnits)
  }
}
