import { within } from '../../deadline.ts'
import { Problem } from '../../errors.ts'
import { secondMs } from '../../time.ts'
import type { Access } from './access.ts'
import type { Freshness, ReadMark } from './freshness.ts'

/** One credential that was looked up. */
export interface CredentialEntry {
  access: Access | null
  /** Under which the row is found again; empty for an unknown credential. */
  readonly hash: Buffer
  mark: ReadMark
  /** Asked for since the last look for room. */
  recent: boolean
  /** The minute of the last use that was noted. */
  usedMinute: number
}

export type Loaded = Pick<CredentialEntry, 'access' | 'hash'>

export interface CredentialCacheOptions {
  readonly freshness: Freshness
  readonly now: () => number
  /** Known credentials work without the database for, ms. */
  readonly outageMs: number
  readonly entriesMax: number
  /** A lookup that failed; the caller is told `service_unavailable`. */
  readonly failed: (error: unknown) => void
}

/** Unknown credentials are remembered only to take the edge off a client that repeats one. */
const unknownForMs = secondMs
const unknownMax = 1_000
const lookupsMax = 10_000
/** A database that does not answer: a known credential waits this long for it, an unknown one longer. */
const knownWaitMs = 250
const unknownWaitMs = 2 * secondMs
/** After a failure a known credential does not wait again before. */
const awayForMs = secondMs

/** Credentials by their keyed hash, bounded; the least recently used go first. */
export class CredentialCache {
  private readonly known = new Map<string, CredentialEntry>()
  private readonly unknown = new Map<string, ReadMark>()
  private readonly lookups = new Map<string, { readonly mark: ReadMark; readonly answer: Promise<Access | null> }>()

  private awayUntilMs = 0

  constructor(private readonly options: CredentialCacheOptions) {}

  /** Not a promise where memory may answer. `used` is called with every entry that let somebody in. */
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

  /** Entries that a change may have outdated. */
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
    // One that began before a change may not see it.
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
    // A slow answer must not cover what a later one knows.
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

  /** Second chance: cheaper on every hit than moving the entry, and as good a guess. */
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
