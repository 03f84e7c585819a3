import type { StoredSleep } from '../../db/queries/pool/sleeping.ts'
import type { NodeWake } from '../../machines/placement/wakes.ts'
import type { Modality } from '../../protocol/wire/nodes/kinds-of-work.ts'
import { isoTime } from '../../time.ts'

/** What is read of a model on a node. */
export interface SleepersModel {
  readonly profileId: string
  readonly model: { readonly ready: boolean; readonly modality?: Modality } | null
  work: { readonly reported: Modality | null; readonly guessed: boolean }
}

/** Another object after each change, so that a table sees it. */
export interface NodeRest {
  /** RFC 3339. */
  readonly since: string
  /** What it had ready and has not ready yet. */
  readonly awaited: ReadonlyMap<string, Modality>
}

/** The time that a computer's model servers get to answer after it woke, ms; requests do not wait for later ones. */
const risingMs = 120_000

const modalityOf = ({ model, work }: SleepersModel): Modality => model?.modality ?? work.reported ?? 'chat'

/** How one node falls asleep and gets up: which models requests may wake it for (§39). */
export class NodeSleep {
  rest: NodeRest | null = null
  /** The models that were ready when it last had any. */
  private ready: ReadonlyMap<string, Modality> = new Map()
  /** Unix ms when it answered again; null: it sleeps, or nothing is awaited. */
  private upSinceMs: number | null = null
  /** RFC 3339: it was seen awake then. */
  private awakeAt = ''

  constructor(private readonly wake: NodeWake) {}

  /** While it takes work. */
  sawReady(profiles: Iterable<SleepersModel>): void {
    const ready = new Map<string, Modality>()
    for (const profile of profiles) if (profile.model?.ready === true) ready.set(profile.profileId, modalityOf(profile))
    if (ready.size > 0) this.ready = ready
  }

  /** As it is stored, if it falls asleep now. */
  from(nowMs: number): StoredSleep {
    return { since: isoTime(nowMs), ready: Object.fromEntries(this.ready) }
  }

  /** Its chart says that it sleeps. `stored`: as the database knows it already; null: this gateway hears it first. */
  fell(nowMs: number, profiles: Iterable<SleepersModel>, stored: StoredSleep | null): NodeRest {
    if (stored !== null) this.restore(stored, profiles)
    this.wake.asleep = true
    this.upSinceMs = null
    this.rest = { since: stored?.since ?? isoTime(nowMs), awaited: this.ready }
    return this.rest
  }

  /** The gateway has started while the node sleeps: its profiles say of their work what was known then. */
  private restore({ ready }: StoredSleep, profiles: Iterable<SleepersModel>): void {
    this.ready = new Map(Object.entries(ready))
    for (const profile of profiles) {
      const modality = this.ready.get(profile.profileId)
      if (modality !== undefined && profile.work.reported === null)
        profile.work = { reported: modality, guessed: false }
    }
  }

  /** A row that was read before its sleep was known to have ended. */
  isOver(stored: StoredSleep | null): boolean {
    return stored === null || stored.since <= this.awakeAt
  }

  /** It answers again, and its models may need a while. */
  answered(nowMs: number): void {
    this.awakeAt = isoTime(nowMs)
    this.wake.lift()
    if (this.rest !== null) this.upSinceMs ??= nowMs
  }

  /** It did not come up, and no request waits for it any more. */
  forget(): void {
    this.rest = null
    this.wake.asleep = false
    this.wake.givenUp()
  }

  /**
   * It has answered, awake. Resolves what it took to wake it, ms, with its first model that is ready; null: it was not woken, or
   * none is. Models that are ready, or that take too long, are no longer waited for.
   */
  rose(profiles: Iterable<SleepersModel>, nowMs: number): number | null {
    const { rest, upSinceMs } = this
    if (rest === null || upSinceMs === null) return null
    const awaited = new Map(rest.awaited)
    for (const { profileId, model } of profiles) if (model?.ready === true) awaited.delete(profileId)
    const tookMs = awaited.size < rest.awaited.size && this.wake.asleep ? this.wake.woken(nowMs) : null
    if (awaited.size === 0 || nowMs - upSinceMs >= risingMs) {
      this.rest = null
      this.wake.asleep = false
    } else if (awaited.size < rest.awaited.size) this.rest = { ...rest, awaited }
    return tookMs
  }
}
