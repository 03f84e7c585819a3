import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { secondMs } from '../../time.ts'
import type { Access } from './access.ts'
import type { Freshness, ReadMark } from './freshness.ts'

/** The result of one lookup. */
export interface CredentialEntry {
  access: Access | null
  /** The hash by which the row is found again. It is empty for an unknown credential. */
  readonly hash: Buffer
  mark: ReadMark
  /** Whether somebody used the entry since the last eviction. */
  recent: boolean
  /** The minute of the last use that was recorded. */
  usedMinute: number
}

export type Loaded = Pick<CredentialEntry, 'access' | 'hash'>

export interface CredentialCacheOptions {
  readonly freshness: Freshness
  readonly now: () => number
  /** How long known credentials work without the database, ms. */
  readonly outageMs: number
  readonly entriesMax: number
  /** Hears of a lookup that failed. The caller gets `service_unavailable`. */
  readonly failed: (error: unknown) => void
}

/** An unknown credential is remembered only this long, which is enough for a client that repeats it quickly. */
const unknownForMs = secondMs
const unknownMax = 1_000
const lookupsMax = 10_000
/** How long a known credential waits for a database that does not answer, ms. An unknown one waits longer. */
const knownWaitMs = 250
const unknownWaitMs = 2 * secondMs
/** After a failure a known credential does not wait for the database again within this time, ms. */
const awayForMs = secondMs

/** Credentials by their keyed hash, up to a bound. The least recently used entries are removed first. */
export class CredentialCache {
  private readonly known = new Map<string, CredentialEntry>()
  private readonly unknown = new Map<string, ReadMark>()
  private readonly lookups = new Map<string, { readonly mark: ReadMark; readonly answer: Promise<Access | null> }>()

  private awayUntilMs = 0

  constructor(private readonly options: CredentialCacheOptions) {}

  /** Returns no promise where memory can answer. Calls `used` for every entry that was accepted. */
  find(
    id: string,
    load: () => Promise<Loaded | null>,
    used: (entry: CredentialEntry) => void,
  ): Access | null | Promise<Access | null> {
    const { freshness, now } = this.options
    const entry = this.known.get(id)
    if (entry !== undefined && freshness.isFresh(entry.mark)) return this.judge(entry, used)
    const unknown = this.unknown.get(id)
    if (unknown !== undefined && freshness.isFresh(unknown) && now() - unknown.readAtMs < unknownForMs) return null
    const usable = entry !== undefined && this.isUsable(entry)
    if (usable && now() < this.awayUntilMs) return this.judge(entry, used)
    const found = this.lookUp(id, load)
    return (usable ? within(knownWaitMs, found) : found).then(
      () => {
        const stored = this.known.get(id)
        return stored === undefined ? null : this.judge(stored, used)
      },
      (error) => {
        this.options.failed(error)
        this.awayUntilMs = now() + awayForMs
        const kept = this.known.get(id)
        if (kept !== undefined && this.isUsable(kept)) return this.judge(kept, used)
        throw new Problem('service_unavailable', { retryAfterSeconds: 1 })
      },
    )
  }

  /** Whether memory holds a valid answer, though a change may just have made it outdated. The database is not asked. */
  remembers(id: string): boolean {
    const entry = this.known.get(id)
    return entry?.access != null && this.isUsable(entry)
  }

  /** Entries that a change may have made outdated. */
  outdated(max: number): CredentialEntry[] {
    const found: CredentialEntry[] = []
    for (const entry of this.known.values()) {
      if (!this.options.freshness.isCurrent(entry.mark)) found.push(entry)
      if (found.length >= max) break
    }
    return found
  }

  forget(which: (entry: CredentialEntry) => boolean): void {
    for (const [id, entry] of this.known) if (which(entry)) this.known.delete(id)
  }

  private isUsable(entry: CredentialEntry): boolean {
    return this.options.freshness.doubtMs(entry.mark) <= this.options.outageMs
  }

  private judge(entry: CredentialEntry, used: (entry: CredentialEntry) => void): Access | null {
    const { access } = entry
    entry.recent = true
    if (access === null || (access.expiresAtMs !== null && access.expiresAtMs <= this.options.now())) return null
    used(entry)
    return access
  }

  private lookUp(id: string, load: () => Promise<Loaded | null>): Promise<Access | null> {
    const under = this.lookups.get(id)
    // A lookup that began before a change may not see that change.
    if (under !== undefined && this.options.freshness.isCurrent(under.mark)) return under.answer
    if (this.lookups.size >= lookupsMax) return Promise.reject(new Error('too many lookups'))
    const mark = this.options.freshness.mark()
    const answer = within(unknownWaitMs, load())
      .then((loaded) => this.store(id, mark, loaded))
      .finally(() => {
        if (this.lookups.get(id)?.answer === answer) this.lookups.delete(id)
      })
    this.lookups.set(id, { mark, answer })
    return answer
  }

  private store(id: string, mark: ReadMark, loaded: Loaded | null): Access | null {
    // A slow answer must not replace what a later lookup found.
    const known = this.known.get(id)
    if (known !== undefined && known.mark.generation > mark.generation) return known.access
    if (loaded === null) {
      this.known.delete(id)
      this.unknown.delete(id)
      this.unknown.set(id, mark)
      makeRoom(this.unknown, unknownMax)
      return null
    }
    this.unknown.delete(id)
    const entry = { ...loaded, mark, recent: true, usedMinute: known?.usedMinute ?? 0 }
    this.known.set(id, entry)
    if (this.known.size > this.options.entriesMax) this.evict()
    return loaded.access
  }

  /** Evicts by second chance, which costs less on every hit than moving the entry and guesses as well. */
  private evict(): void {
    for (const [id, entry] of this.known) {
      this.known.delete(id)
      if (!entry.recent) return
      entry.recent = false
      this.known.set(id, entry)
    }
  }
}

function makeRoom(map: Map<string, unknown>, max: number): void {
  for (const id of map.keys()) {
    if (map.size <= max) return
    map.delete(id)
  }
}
