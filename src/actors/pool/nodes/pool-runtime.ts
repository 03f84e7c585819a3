import type { ProfileRow } from '../../../db/queries/pool/pool.ts'
import type { RuntimeId } from '../../../ids.ts'
import { failedPollsMax } from '../../../machines/charts/node-events.ts'
import { evictionMs, type LoadTimes, loadMsOf, noteLoad, noteMemory } from '../../../machines/placement/loads.ts'
import { loadReported, newReading, type Reading } from '../../../machines/placement/reading.ts'
import type { NodeWake } from '../../../machines/placement/wakes.ts'
import type { HostedServer } from '../../../machines/plan/evictions.ts'
import { healthy } from '../../../machines/rules/ejection.ts'
import type { RuntimeKind } from '../../../protocol/wire/nodes/node.ts'
import { idleStatus, isPooled, modalityOf, type RuntimeModel, type RuntimeStatus } from '../../../runtimes/runtime.ts'
import { placingOf } from './model-placing.ts'
import type { Profile, RoutedRuntime } from './routing-table.ts'

/** To load a model, these runtimes may throw out another. */
const keepsFew: ReadonlySet<RuntimeKind> = new Set(['ollama', 'lmstudio', 'llama.cpp'])

const workIn = ({ modality, workGuessed }: RuntimeModel) => ({
  reported: modality ?? null,
  guessed: workGuessed === true,
})

/** One runtime of a node: its last status and its models. */
export class PoolRuntime implements RoutedRuntime {
  readonly profiles = new Map<string, Profile>()
  kind: RuntimeKind = 'other'
  slotsTotal: number | null = null
  engineRank: number | null = null
  /** null if the gateway has no status yet, or if the agent no longer has this runtime. */
  status: RuntimeStatus | null = null
  /** The most of its models that were seen in memory at once. */
  loadedMax = 0
  /** The number of successive polls that found the server reachable but broken. */
  private polledDown = 0

  /** `label` is the name by which the node tells its runtimes apart. It is empty for a node without an agent. */
  constructor(
    readonly runtimeId: RuntimeId,
    readonly label: string,
    /** Of its node. */
    private readonly loadTimes: LoadTimes,
    private readonly wake?: NodeWake,
  ) {}

  get failing(): boolean {
    return this.polledDown > 0
  }

  knowProfile(row: ProfileRow): Profile {
    const known = this.profiles.get(row.upstreamModelId)
    if (known !== undefined) {
      // Another gateway may have learnt more.
      if (row.answered.length > known.answered.length) known.answered = row.answered
      return known
    }
    const profile: Profile = {
      profileId: row.profileId,
      upstreamModelId: row.upstreamModelId,
      knownAt: row.knownAt,
      load: {
        inFlight: 0,
        ttftEwmaMs: row.ttftMs,
        tokensPerSecond: row.tokensPerSecond,
        durationEwmaMs: null,
        ejectedUntilMs: 0,
        reading: newReading(row.profileId, this.loadTimes, this.wake),
      },
      ejection: healthy,
      measuredAt: row.lastMeasuredAt === null ? 0 : Math.floor(row.lastMeasuredAt.getTime() / 1_000),
      firstToken:
        row.ttftMs === null || row.ttftAt === null
          ? null
          : { ms: row.ttftMs, atMs: row.ttftAt.getTime(), of: row.ttftCount },
      work: { reported: null, guessed: false },
      answered: row.answered,
      model: null,
      adapts: null,
    }
    this.profiles.set(row.upstreamModelId, profile)
    return profile
  }

  /**
   * Takes over a status; null: the node no longer has this runtime. A server that is there and broken (5xx on its
   * health) has answered, but its models count as not ready from the second such poll on, like those of a silent one.
   * `askedAtMs`: Unix ms when the poll went out. `isLate`: another process polled, so that calls may have ended since.
   */
  onStatus(status: RuntimeStatus | null, nowMs: number, askedAtMs = nowMs, isLate = false): void {
    this.status = status
    const down = status?.state === 'down'
    this.polledDown = down ? this.polledDown + 1 : 0
    if (status !== null && !down) {
      this.kind = status.kind
      this.slotsTotal = status.slotsTotal
      this.engineRank = status.rank ?? null
    }
    if (down && this.polledDown < failedPollsMax) return
    const models = new Map(status?.models.filter(isPooled).map((model) => [model.id, model]))
    for (const profile of this.profiles.values()) {
      const before = profile.model?.loaded ?? null
      profile.model = models.get(profile.upstreamModelId) ?? null
      profile.adapts = this.profiles.get(profile.model?.adapts ?? '') ?? null
      if (profile.model !== null) profile.work = workIn(profile.model)
      noteMemory(profile.load.reading, profile.model?.loaded ?? null, before, nowMs, askedAtMs)
      this.noteStatus(profile, status, isLate)
    }
    const loaded = [...this.profiles.values()].filter(
      ({ model }) => model?.loaded === true && model.adapts === undefined,
    ).length
    this.loadedMax = Math.max(this.loadedMax, loaded)
    this.weighEvictions(nowMs)
  }

  /** As one server of its agent, of whose memory it is told; null: its agent does not run it, or tells no budget. */
  hosted(elsewhere: (profile: Profile) => boolean): HostedServer | null {
    const served = [...this.profiles.values()].filter(({ model }) => model?.serverState !== undefined)
    const [first] = served
    if (first === undefined || this.status?.budgetsMb === undefined) return null
    const { needsMb, group, pinned } = placingOf(first, null, undefined)
    const models = served.map((profile) => {
      const { inFlight, durationEwmaMs, reading } = profile.load
      return { inFlight, durationEwmaMs, reading, elsewhere: !reading.cold && elsewhere(profile) }
    })
    return { id: this.label, memoryMb: needsMb ?? {}, group, pinned, models }
  }

  /** What a load of each of its models would cost the others, by what this server alone shows. */
  weighEvictions(nowMs: number): void {
    for (const { model, load } of this.profiles.values()) {
      const { reading } = load
      reading.evictedWaitMs = reading.cold && model !== null ? this.evictedWaitMs(model, reading, nowMs) : 0
    }
  }

  /** What the choice of a route reads of it. Slots and queue are the runtime's: all its models share them. */
  private noteStatus(
    { load: { reading, inFlight }, model }: Profile,
    status: RuntimeStatus | null,
    isLate: boolean,
  ): void {
    const { slotsTotal, slotsFree, queueDepth, running } = status ?? idleStatus(this.kind, 'down')
    const taken = slotsTotal === null || slotsFree === null ? null : slotsTotal - slotsFree
    // Calls of this process that ran when the poll went out are not those of others, though they have ended since.
    const ours = isLate ? Math.max(inFlight, reading.openCallsMost) : inFlight
    loadReported(reading, { busy: running ?? taken, queued: queueDepth }, ours)
    noteLoad(reading, model?.loadingSinceMs, inFlight > 0)
    reading.dozing = reading.cold && model?.dozing === true
    reading.sizeBytes = model?.file?.size_bytes ?? model?.memory?.bytes ?? null
  }

  /**
   * What others wait if this model is loaded. The runtime throws out the one whose users miss it least; of one that it does
   * not show it is known only that somebody uses it.
   */
  private evictedWaitMs({ id, evicts }: RuntimeModel, reading: Reading, nowMs: number): number {
    if (evicts === false || (evicts === undefined && !keepsFew.has(this.kind))) return 0
    let [least, loaded] = [Number.POSITIVE_INFINITY, 0]
    for (const { model, load } of this.profiles.values()) {
      const isComing = load.reading.cold && load.reading.loadStartedAtMs !== null
      if (model === null || model.id === id || (model.loaded !== true && !isComing)) continue
      least = Math.min(least, evictionMs(load.reading, nowMs))
      loaded++
    }
    if (loaded > 0) return least
    return evicts === true ? loadMsOf(reading, null) : 0
  }

  modelsReady(): number {
    let ready = 0
    for (const { model } of this.profiles.values()) if (model?.ready === true) ready++
    return ready
  }

  /** The part of the runtime that routes show. */
  signature(): unknown {
    const models = [...this.profiles.values()].map(({ model }) =>
      model === null
        ? 0
        : [
            model.ready,
            model.contextLength,
            model.loaded,
            modalityOf(model),
            model.workGuessed,
            model.ranking,
            model.file,
            model.memory,
            model.adapts,
            model.askedWith,
          ],
    )
    return [this.runtimeId, this.kind, this.slotsTotal, this.engineRank, models]
  }
}
