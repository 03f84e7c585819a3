import type { Prompt } from '../../machines/placement/blocks.ts'
import { unitsPerToken } from '../../machines/placement/cache-view.ts'
import { CacheViews } from '../../machines/placement/cache-views.ts'
import { loadAwaited, loadGivenUp, loadProved, loadSeen } from '../../machines/placement/loads.ts'
import {
  firstTokenSeen,
  learnReading,
  type Reading,
  type Work,
  workEnded,
  workPlaced,
} from '../../machines/placement/reading.ts'
import type { Route } from '../../machines/rules/routing.ts'
import type { RuntimeModel } from '../../runtimes/runtime.ts'

export interface PlacedCall {
  /** The estimated work on its route; null if there was no choice of routes. */
  readonly work: Work | null
  /** Its first token will be seen. */
  readonly timed: boolean
}

interface HeardProfile {
  readonly profileId: string
  readonly upstreamModelId: string
  readonly model: Pick<RuntimeModel, 'cacheTokens' | 'cacheHeld'> | null
}

/** A good answer's facts about reading its prompt. */
export interface GoodAnswer {
  /** null if the first content was not observed. */
  readonly ttftMs: number | null
  readonly durationMs: number
  readonly promptTokens: number
  readonly completionTokens: number
  /** Of the prompt, as the runtime found them in its cache; null: it does not say. */
  readonly cachedTokens: number | null
}

/**
 * The estimated work of calls on their routes (§29), the lessons from them, and the caches' contents because of them.
 */
export class PlacedCalls {
  readonly caches = new CacheViews()

  /** `tell`: called with the profile of each sent prompt, for the other gateways. */
  constructor(private readonly tell: (profileId: string, prompt: Prompt) => void) {}

  begun({ load: { reading }, cache, profileId }: Route, call: PlacedCall): void {
    const { work, timed } = call
    if (work === null) return loadAwaited(reading, Date.now())
    workPlaced(reading, work, timed)
    this.caches.of(cache.modelId).record(cache.profileId, work.prompt)
    this.tell(profileId, work.prompt)
  }

  /** The first token of a call that has not ended is there. True: others wait for what it has had loaded. */
  spoke({ load: { reading } }: Route, call: PlacedCall): boolean {
    const wasCold = reading.cold
    if (call.timed) this.spokeAt(Date.now(), reading, call.work)
    return wasCold && !reading.cold
  }

  private spokeAt(atMs: number, reading: Reading, work: Work | null): void {
    if (work === null) {
      if (reading.loadStartedAtMs !== null) loadSeen(reading, atMs)
    } else if (work.readMs === null) firstTokenSeen(reading, work, atMs)
  }

  /**
   * A node was polled: takes what its models' servers report of their caches. A model without requests needs no view.
   */
  onNotice(
    profiles: Iterable<HeardProfile>,
    emptied: readonly string[],
    publicIdOf: (upstreamModelId: string) => string,
  ): void {
    this.forget(emptied)
    for (const { profileId, upstreamModelId, model } of profiles) {
      const view = this.caches.known(publicIdOf(upstreamModelId))
      if (view === null || model === null) continue
      if (model.cacheTokens != null) view.reported(profileId, model.cacheTokens)
      view.holds(profileId, model.cacheHeld?.full === true ? model.cacheHeld.tokens : null)
    }
  }

  /** Their caches are empty. */
  forget(profileIds: readonly string[]): void {
    for (const profileId of profileIds) this.caches.forget(profileId)
  }

  /** `answer`: what it has taught of reading there, and what stands behind its prompt in the cache now; null: it gave none. */
  ended(
    { load: { reading, inFlight, durationEwmaMs }, cache: { modelId, profileId } }: Route,
    call: PlacedCall,
    answer: GoodAnswer | null,
  ): void {
    const { work, timed } = call
    const now = Date.now()
    const firstMs = answer === null || answer.ttftMs === null || !timed ? null : now - answer.durationMs + answer.ttftMs
    // An answer in one piece ends before its start could be reported.
    if (firstMs !== null) this.spokeAt(firstMs, reading, work)
    if (answer !== null) loadProved(reading)
    else if (inFlight === 0) loadGivenUp(reading)
    if (work === null) return
    workEnded(reading, work, timed, now)
    if (answer === null) return
    const { completionTokens } = answer
    const cachedUnits = cachedUnitsOf(work.prompt, answer)
    learnReading(reading, work, cachedUnits, durationEwmaMs ?? answer.durationMs)
    const view = this.caches.of(modelId)
    view.measured(profileId, work.prompt.units, answer.promptTokens)
    view.answered(profileId, work.prompt, completionTokens * unitsPerToken)
    if (cachedUnits !== null) view.corrected(profileId, work.matchedBlocks, cachedUnits)
  }
}

/** By its share of the prompt: how many units a token has depends on the language and on the model. */
function cachedUnitsOf({ units }: Prompt, { cachedTokens, promptTokens }: GoodAnswer): number | null {
  if (cachedTokens === null || promptTokens <= 0) return null
  return units * Math.min(1, cachedTokens / promptTokens)
}
